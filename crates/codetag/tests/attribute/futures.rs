//! Tagged futures: scope, drop order and size, each beside the same function without the attribute.

use codetag::alloc_tag;
use codetag_subject_2024::{Yield, block_on};
use std::cell::RefCell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

fn here() -> &'static str {
    codetag::__private::current_function()
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

thread_local! {
    /// What was dropped, and the tag that was current then.
    static DROPS: RefCell<Vec<(&'static str, &'static str)>> = const { RefCell::new(Vec::new()) };
}

struct Noisy(&'static str);

impl Noisy {
    fn touch(&self, _other: &Self) -> usize {
        self.0.len()
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push((self.0, here())));
    }
}

struct Pair {
    x: Noisy,
    _y: Noisy,
}

fn pair() -> Pair {
    Pair {
        x: Noisy("x"),
        _y: Noisy("y"),
    }
}

/// How a future ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Returns,
    ReturnsEarly,
    Panics,
    NeverPolled,
    DroppedHalfWay,
}

const ENDS: [End; 5] = [
    End::Returns,
    End::ReturnsEarly,
    End::Panics,
    End::NeverPolled,
    End::DroppedHalfWay,
];

/// Runs a future to its end and returns what was dropped on the way.
fn drops_of<F: Future>(end: End, make: impl FnOnce(End) -> F) -> Vec<(&'static str, &'static str)> {
    DROPS.with_borrow_mut(Vec::clear);
    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
        let future = make(end);
        match end {
            End::NeverPolled => {}
            End::DroppedHalfWay => assert!(poll_once(pin!(future)).is_pending()),
            _ => drop(block_on(future)),
        }
    }));
    assert_eq!(here(), "untagged");
    DROPS.take()
}

/// The same function without and with the attribute, the second also in the form that keeps `async fn`.
macro_rules! twins {
    ($($plain:ident $tagged:ident $wrapped:ident ($($args:tt)*) $(-> $output:ty)? $body:block)*) => {$(
        #[allow(clippy::toplevel_ref_arg, reason = "one of the patterns")]
        async fn $plain($($args)*) $(-> $output)? $body

        #[alloc_tag]
        #[allow(clippy::toplevel_ref_arg, reason = "one of the patterns")]
        async fn $tagged($($args)*) $(-> $output)? $body

        #[alloc_tag]
        #[must_use = "its output is looked at"]
        #[allow(dead_code, reason = "some are for two of the three")]
        #[allow(clippy::toplevel_ref_arg, reason = "one of the patterns")]
        async fn $wrapped($($args)*) $(-> $output)? $body
    )*};
}

async fn go_on(end: End) -> Result<(), ()> {
    match end {
        End::ReturnsEarly => return Err(()),
        End::Panics => panic::resume_unwind(Box::new("asked for")),
        _ => {}
    }
    Yield::default().await;
    Ok(())
}

twins! {
    unused_plain unused_tagged unused_wrapped
        (end: End, _a: Noisy, b: Noisy, _c: Noisy) -> Result<usize, ()> {
            let local = Noisy("local");
            go_on(end).await?;
            Ok(local.touch(&b))
        }

    wild_plain wild_tagged wild_wrapped
        (end: End, _: Noisy, a: Noisy, _: Noisy, mut b: Noisy) -> Result<(), ()> {
            go_on(end).await?;
            b.0 = "b, changed";
            assert_eq!(b.0.len(), 10);
            drop(a);
            Ok(())
        }

    taken_apart_plain taken_apart_tagged taken_apart_wrapped
        (end: End, (a, _b): (Noisy, Noisy), Pair { x, .. }: Pair, ref c: Noisy, d: Noisy) -> Result<usize, ()> {
            let local = Noisy("local");
            go_on(end).await?;
            Ok(x.touch(&a) + c.touch(&d) + local.touch(&d))
        }

    temporary_plain temporary_tagged temporary_wrapped
        (end: End, a: Noisy, b: Noisy) -> usize {
            if go_on(end).await.is_err() {
                return 0;
            }
            let local = Noisy("local");
            Noisy("temporary").touch(&a) + b.touch(&local)
        }

    one_expression_plain one_expression_tagged one_expression_wrapped
        (a: Noisy, b: Noisy) -> usize {
            Noisy("temporary").touch(&a) + { Yield::default().await; b.touch(&a) }
        }
}

struct Holder {
    first: Noisy,
    _second: Noisy,
}

impl Holder {
    fn new() -> Self {
        Self {
            first: Noisy("first"),
            _second: Noisy("second"),
        }
    }

    async fn by_value_plain(self, end: End, _a: Noisy) -> Result<usize, ()> {
        go_on(end).await?;
        Ok(self.first.touch(&self.first))
    }

    #[alloc_tag]
    async fn by_value_tagged(self, end: End, _a: Noisy) -> Result<usize, ()> {
        go_on(end).await?;
        Ok(self.first.touch(&self.first))
    }

    async fn unused_plain(self, _a: Noisy) {}

    #[alloc_tag]
    async fn unused_tagged(self, _a: Noisy) {}

    async fn taken_plain(self, end: End, _a: Noisy) -> Result<Noisy, ()> {
        go_on(end).await?;
        Ok(self.first)
    }

    #[alloc_tag]
    async fn taken_tagged(self, end: End, _a: Noisy) -> Result<Noisy, ()> {
        go_on(end).await?;
        Ok(self.first)
    }
}

/// Same drops in the same order, and those of the tagged future in its scope.
#[track_caller]
fn assert_same_drops<P: Future, T: Future>(
    name: &str,
    plain: impl Fn(End) -> P,
    tagged: impl Fn(End) -> T,
) {
    for end in ENDS {
        let due: Vec<_> = drops_of(end, &plain).iter().map(|drop| drop.0).collect();
        let seen = drops_of(end, &tagged);
        assert_eq!(
            due,
            seen.iter().map(|drop| drop.0).collect::<Vec<_>>(),
            "{name}, {end:?}"
        );
        for (what, tag) in seen {
            // What the function returned is dropped by its caller.
            let due = if what == "first" && name == "taken_tagged" && end == End::Returns {
                "untagged"
            } else {
                name
            };
            assert_eq!(tag, due, "{what}, {end:?}");
        }
    }
}

fn n(name: &'static str) -> Noisy {
    Noisy(name)
}

#[test]
fn arguments_are_dropped_in_the_order_of_the_plain_function() {
    assert_same_drops(
        "unused_tagged",
        |end| unused_plain(end, n("a"), n("b"), n("c")),
        |end| unused_tagged(end, n("a"), n("b"), n("c")),
    );
    assert_same_drops(
        "wild_tagged",
        |end| wild_plain(end, n("_1"), n("a"), n("_2"), n("b")),
        |end| wild_tagged(end, n("_1"), n("a"), n("_2"), n("b")),
    );
    assert_same_drops(
        "taken_apart_tagged",
        |end| taken_apart_plain(end, (n("a"), n("b")), pair(), n("c"), n("d")),
        |end| taken_apart_tagged(end, (n("a"), n("b")), pair(), n("c"), n("d")),
    );
    assert_same_drops(
        "temporary_tagged",
        |end| temporary_plain(end, n("a"), n("b")),
        |end| temporary_tagged(end, n("a"), n("b")),
    );
    assert_same_drops(
        "one_expression_tagged",
        |_| one_expression_plain(n("a"), n("b")),
        |_| one_expression_tagged(n("a"), n("b")),
    );
    assert_same_drops(
        "by_value_tagged",
        |end| Holder::new().by_value_plain(end, n("a")),
        |end| Holder::new().by_value_tagged(end, n("a")),
    );
    assert_same_drops(
        "taken_tagged",
        |end| Holder::new().taken_plain(end, n("a")),
        |end| Holder::new().taken_tagged(end, n("a")),
    );
}

#[test]
fn an_unused_self_lives_as_long_as_a_used_one() {
    let ends = [End::Returns, End::NeverPolled];
    for end in ends {
        let due = drops_of(end, |_| Holder::new().unused_plain(n("a")));
        let seen = drops_of(end, |_| Holder::new().unused_tagged(n("a")));
        assert_eq!(due.len(), 3);
        assert!(
            due.iter()
                .map(|drop| drop.0)
                .eq(seen.iter().map(|drop| drop.0)),
            "{due:?} {seen:?}"
        );
    }
}

#[test]
fn the_wrapped_form_drops_polled_arguments_in_the_same_order() {
    for end in [
        End::Returns,
        End::ReturnsEarly,
        End::Panics,
        End::DroppedHalfWay,
    ] {
        let names = |drops: Vec<(&'static str, &'static str)>| -> Vec<&'static str> {
            drops.iter().map(|drop| drop.0).collect()
        };
        let due = names(drops_of(end, |end| {
            unused_plain(end, n("a"), n("b"), n("c"))
        }));
        let seen = drops_of(end, |end| unused_wrapped(end, n("a"), n("b"), n("c")));
        assert!(
            seen.iter().all(|drop| drop.1 == "unused_wrapped"),
            "{seen:?}"
        );
        assert_eq!(due, names(seen), "{end:?}");
        let due = names(drops_of(end, |end| temporary_plain(end, n("a"), n("b"))));
        let seen = names(drops_of(end, |end| temporary_wrapped(end, n("a"), n("b"))));
        assert_eq!(due, seen, "{end:?}");
    }
}

#[alloc_tag]
async fn inner(seen: &RefCell<Vec<&'static str>>) {
    seen.borrow_mut().push(here());
    Yield::default().await;
    seen.borrow_mut().push(here());
}

#[alloc_tag]
async fn around(seen: &RefCell<Vec<&'static str>>) {
    inner(seen).await;
    seen.borrow_mut().push(here());
}

#[test]
fn an_await_leaves_the_scope_and_comes_back() {
    let seen = RefCell::new(Vec::new());
    let mut one = pin!(around(&seen));
    let mut two = pin!(around(&seen));
    assert_eq!(here(), "untagged");
    assert!(poll_once(one.as_mut()).is_pending());
    assert_eq!(here(), "untagged");
    assert!(poll_once(two.as_mut()).is_pending());
    assert!(poll_once(one.as_mut()).is_ready());
    assert!(poll_once(two.as_mut()).is_ready());
    assert_eq!(here(), "untagged");
    let due = ["inner", "inner", "inner", "around", "inner", "around"];
    assert_eq!(*seen.borrow(), due);
}

#[test]
fn a_cancelled_future_is_dropped_in_its_own_scope() {
    let drops = drops_of(End::DroppedHalfWay, |end| {
        unused_tagged(end, n("a"), n("b"), n("c"))
    });
    let tags: Vec<_> = drops.iter().map(|drop| drop.1).collect();
    assert_eq!(tags, ["unused_tagged"; 4]);
}

#[test]
fn a_future_keeps_its_tag_on_another_thread() {
    let mut future = Box::pin(codetag_probe(String::from("x")));
    assert!(poll_once(future.as_mut()).is_pending());
    let seen = thread::spawn(move || block_on(future)).join().unwrap();
    assert_eq!(seen, "codetag_probe");
}

#[alloc_tag]
async fn codetag_probe(text: String) -> &'static str {
    Yield::default().await;
    assert_eq!(text, "x");
    here()
}

twins! {
    leaf_plain leaf_tagged leaf_wrapped (data: [u8; 1000], n: u32) -> u32 {
        Yield::default().await;
        u32::from(data[n as usize]) + n
    }

    aligned_plain aligned_tagged aligned_wrapped (wide: u128) -> u128 {
        Yield::default().await;
        wide
    }

    holding_plain holding_tagged holding_wrapped (words: Vec<String>, text: &str) -> usize {
        let own = text.to_string();
        Yield::default().await;
        words.len() + own.len()
    }
}

async fn chain_plain(data: [u8; 1000], n: u32) -> u32 {
    middle_plain(data, n).await + 1
}
async fn middle_plain(data: [u8; 1000], n: u32) -> u32 {
    leaf_plain(data, n).await + 1
}
#[alloc_tag]
async fn chain_tagged(data: [u8; 1000], n: u32) -> u32 {
    middle_tagged(data, n).await + 1
}
#[alloc_tag]
async fn middle_tagged(data: [u8; 1000], n: u32) -> u32 {
    leaf_tagged(data, n).await + 1
}
#[alloc_tag]
#[must_use]
async fn chain_wrapped(data: [u8; 1000], n: u32) -> u32 {
    middle_wrapped(data, n).await + 1
}
#[alloc_tag]
#[must_use]
async fn middle_wrapped(data: [u8; 1000], n: u32) -> u32 {
    leaf_wrapped(data, n).await + 1
}

#[test]
fn a_rewritten_future_grows_by_one_word() {
    const WORD: usize = size_of::<usize>();
    let data = [1; 1000];
    let grows = |plain: usize, tagged: usize| tagged - plain;
    assert_eq!(
        grows(
            size_of_val(&leaf_plain(data, 1)),
            size_of_val(&leaf_tagged(data, 1))
        ),
        WORD
    );
    assert_eq!(
        grows(
            size_of_val(&holding_plain(vec![], "")),
            size_of_val(&holding_tagged(vec![], ""))
        ),
        WORD
    );
    assert_eq!(
        grows(
            size_of_val(&chain_plain(data, 1)),
            size_of_val(&chain_tagged(data, 1))
        ),
        3 * WORD
    );
    // One word, rounded up to the alignment.
    assert_eq!(
        grows(
            size_of_val(&aligned_plain(1)),
            size_of_val(&aligned_tagged(1))
        ),
        16
    );
    assert_eq!(
        block_on(chain_plain(data, 1)),
        block_on(chain_tagged(data, 1))
    );
}

#[test]
fn a_wrapped_future_grows_by_its_arguments() {
    let data = [1; 1000];
    let arguments = size_of_val(&data) + size_of::<u32>();
    // A word, and a byte of state rounded up to the alignment.
    let other = 0..=16;
    let (plain, wrapped) = (
        size_of_val(&leaf_plain(data, 1)),
        size_of_val(&leaf_wrapped(data, 1)),
    );
    assert!(
        other.contains(&(wrapped - plain - arguments)),
        "{plain} {wrapped}"
    );
    let (plain, wrapped) = (
        size_of_val(&chain_plain(data, 1)),
        size_of_val(&chain_wrapped(data, 1)),
    );
    assert!(
        (0..=3 * 16).contains(&(wrapped - plain - 3 * arguments)),
        "{plain} {wrapped}"
    );
    assert_eq!(block_on(chain_wrapped(data, 1)), 4);
}

macro_rules! chain {
    ($($name:ident $next:ident)*) => {$(
        #[alloc_tag]
        async fn $name(depth: u64, text: &str) -> u64 {
            let before = Yield::default();
            before.await;
            assert_eq!(here(), stringify!($name));
            $next(depth + 1, text).await
        }
    )*};
}

async fn c130(depth: u64, text: &str) -> u64 {
    Yield::default().await;
    depth + text.len() as u64
}

chain! {
    c0 c1 c1 c2 c2 c3 c3 c4 c4 c5 c5 c6 c6 c7 c7 c8 c8 c9 c9 c10
    c10 c11 c11 c12 c12 c13 c13 c14 c14 c15 c15 c16 c16 c17 c17 c18 c18 c19 c19 c20
    c20 c21 c21 c22 c22 c23 c23 c24 c24 c25 c25 c26 c26 c27 c27 c28 c28 c29 c29 c30
    c30 c31 c31 c32 c32 c33 c33 c34 c34 c35 c35 c36 c36 c37 c37 c38 c38 c39 c39 c40
    c40 c41 c41 c42 c42 c43 c43 c44 c44 c45 c45 c46 c46 c47 c47 c48 c48 c49 c49 c50
    c50 c51 c51 c52 c52 c53 c53 c54 c54 c55 c55 c56 c56 c57 c57 c58 c58 c59 c59 c60
    c60 c61 c61 c62 c62 c63 c63 c64 c64 c65 c65 c66 c66 c67 c67 c68 c68 c69 c69 c70
    c70 c71 c71 c72 c72 c73 c73 c74 c74 c75 c75 c76 c76 c77 c77 c78 c78 c79 c79 c80
    c80 c81 c81 c82 c82 c83 c83 c84 c84 c85 c85 c86 c86 c87 c87 c88 c88 c89 c89 c90
    c90 c91 c91 c92 c92 c93 c93 c94 c94 c95 c95 c96 c96 c97 c97 c98 c98 c99 c99 c100
    c100 c101 c101 c102 c102 c103 c103 c104 c104 c105 c105 c106 c106 c107 c107 c108 c108 c109 c109 c110
    c110 c111 c111 c112 c112 c113 c113 c114 c114 c115 c115 c116 c116 c117 c117 c118 c118 c119 c119 c120
    c120 c121 c121 c122 c122 c123 c123 c124 c124 c125 c125 c126 c126 c127 c127 c128 c128 c129 c129 c130
}

#[test]
fn a_chain_of_130_fits_the_stack_of_a_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let two_mib = thread::Builder::new().stack_size(2 << 20);
    let run = || block_on(is_send(c0(0, "x")));
    assert_eq!(two_mib.spawn(run).unwrap().join().unwrap(), 131);
}
