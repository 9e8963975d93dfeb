//! Every shape the attribute stands on, compiled in each edition, in a crate that forbids unsafe code and
//! all warnings, beside local modules named `core` and `std`.
//!
//! Each function returns the function of the tag that is current in it.

#![forbid(unsafe_code)]
#![deny(warnings, clippy::all)]

use ::std::future::Future;
use ::std::pin::Pin;
use ::std::sync::{Arc, Mutex};
use ::std::task::{Context, Poll, Waker};
use codetag::alloc_tag;

mod core {}
mod std {}

/// The function of the current tag.
pub fn here() -> &'static str {
    codetag::__private::current_function()
}

/// Asserts the function of the current tag; with the tags compiled out there is none.
#[track_caller]
pub fn assert_here(due: &str) {
    let tags_off = codetag::tags().next().is_none();
    assert_eq!(here(), if tags_off { "untagged" } else { due });
}

/// Polls until ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Pending once.
#[derive(Debug, Default)]
pub struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        Poll::Pending
    }
}

#[alloc_tag]
fn plain() -> &'static str {
    here()
}

#[alloc_tag(name = "a name")]
fn named(mut n: u32, (a, b): (u32, u32), _: String) -> &'static str {
    n += a + b;
    assert_eq!(n, 6);
    here()
}

#[alloc_tag]
fn generic<T: Default + PartialEq + ::std::fmt::Debug>(value: T) -> &'static str {
    assert_eq!(value, T::default());
    here()
}

#[alloc_tag]
fn lazily<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'static str> + 'a {
    let at_call = here();
    words.iter().map(move |_| at_call)
}

#[alloc_tag]
fn recursive(n: u32) -> &'static str {
    if n == 0 { here() } else { recursive(n - 1) }
}

#[alloc_tag]
extern "C" fn from_c(n: u32) -> u32 {
    assert_here("from_c");
    n + 1
}

#[alloc_tag]
fn guard_named_by_user() -> &'static str {
    let __guard = 1;
    let guard = __guard;
    assert_eq!(guard, 1);
    here()
}

#[alloc_tag]
fn fails(fail: bool) -> Result<&'static str, ::std::num::ParseIntError> {
    let number: u32 = if fail { "x" } else { "1" }.parse()?;
    assert_eq!(number, 1);
    Ok(here())
}

#[alloc_tag]
fn ends_in_temporary(lock: &Mutex<&'static str>) -> usize {
    lock.lock().unwrap().len()
}

#[alloc_tag]
async fn plain_async() -> &'static str {
    Yield::default().await;
    here()
}

#[alloc_tag]
async fn borrows(a: &str, b: &Mutex<String>, c: ::std::str::Chars<'_>) -> usize {
    Yield::default().await;
    a.len() + b.lock().unwrap().len() + c.count()
}

#[alloc_tag]
async fn patterns(mut n: u32, (a, mut b): (u32, u32), _: String, _unused: String) -> &'static str {
    n += a;
    b += n;
    Yield::default().await;
    assert_eq!(b, 6);
    here()
}

#[alloc_tag]
async fn ends_in_temporary_async(lock: Mutex<&'static str>) -> usize {
    lock.lock().unwrap().len()
}

#[alloc_tag]
async fn fails_async(
    fail: bool,
) -> Result<&'static str, Box<dyn ::std::error::Error + Send + Sync>> {
    Yield::default().await;
    if fail {
        "x".parse::<u32>()?;
    }
    Ok(here())
}

trait Speak {
    fn word(&self) -> String;
}
impl Speak for u8 {
    fn word(&self) -> String {
        "u8".into()
    }
}
impl Speak for u16 {
    fn word(&self) -> String {
        "u16".into()
    }
}

#[alloc_tag]
async fn coerces(which: bool) -> Box<dyn Speak> {
    if which {
        return Box::new(1u8);
    }
    Box::new(1u16)
}

#[alloc_tag]
async fn coerces_closure(which: u8) -> fn(u8) -> u8 {
    match which {
        0 => return |n| n + 1,
        1 => return |n| n + 2,
        _ => {}
    }
    |n| n
}

#[alloc_tag]
async fn unit_async(seen: &Mutex<Vec<&'static str>>) {
    Yield::default().await;
    seen.lock().unwrap().push(here());
}

#[alloc_tag]
async fn empty_async() {}

#[alloc_tag]
async fn diverges(n: u32) -> u32 {
    if n == 0 {
        panic!("asked for")
    }
    loop {
        if n == 1 {
            break;
        }
    }
    unreachable_or(n)
}

fn unreachable_or(n: u32) -> u32 {
    n
}

#[alloc_tag]
async fn never() -> ! {
    panic!("{}", here())
}

#[alloc_tag]
async fn returns_impl(words: &str) -> impl Iterator<Item = &str> {
    Yield::default().await;
    assert_here("returns_impl");
    words.split(' ')
}

#[alloc_tag]
async fn generic_async<T, const N: usize>(value: &T, more: impl Into<String>) -> (Vec<T>, usize)
where
    T: Clone,
{
    Yield::default().await;
    assert_here("generic_async");
    (vec![value.clone(); N], more.into().len())
}

#[alloc_tag]
fn recursive_async(n: u32) -> Pin<Box<dyn Future<Output = &'static str> + Send>> {
    Box::pin(async move {
        if n == 0 {
            return here();
        }
        recursive_async(n - 1).await
    })
}

#[alloc_tag]
async fn recursive_boxed(n: u32) -> &'static str {
    if n == 0 {
        return here();
    }
    Box::pin(recursive_boxed(n - 1)).await
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

#[alloc_tag]
fn boxed_with_question(text: &str) -> Boxed<'_, Result<u32, Box<dyn ::std::error::Error>>> {
    let before = here();
    Box::pin(async move {
        Yield::default().await;
        assert_eq!(before, here());
        assert_here("boxed_with_question");
        let n: u32 = text.parse()?;
        Ok(n)
    })
}

#[alloc_tag]
fn returned_block(
    n: usize,
) -> impl Future<Output = Result<usize, ::std::num::ParseIntError>> + Send {
    assert_here("returned_block");
    async move {
        Yield::default().await;
        assert_here("returned_block");
        let one: usize = "1".parse()?;
        Ok(one + n)
    }
}

/// A type with methods of every receiver.
#[derive(Debug, Default, Clone)]
pub struct Thing {
    words: Vec<String>,
}

#[alloc_tag]
impl Thing {
    const LIMIT: usize = Self::limit();

    const fn limit() -> usize {
        3
    }

    fn by_ref(&self) -> &'static str {
        assert!(self.words.len() < Self::LIMIT);
        here()
    }

    fn by_mut(&mut self) -> &'static str {
        self.words.clear();
        here()
    }

    fn by_value(self) -> (Self, &'static str) {
        (self, here())
    }

    fn by_arc(self: Arc<Self>) -> (usize, &'static str) {
        (self.words.len(), here())
    }

    fn by_pin(self: Pin<&mut Self>) -> &'static str {
        assert_eq!(self.words.len(), 0);
        here()
    }

    #[alloc_tag(skip)]
    fn skipped(&self) -> &'static str {
        here()
    }

    #[alloc_tag(name = "own name")]
    fn with_name(&self) -> &'static str {
        here()
    }

    async fn async_ref(&self, other: &str) -> &str {
        Yield::default().await;
        assert_here("Thing::async_ref");
        let _ = other.len();
        self.words.first().map_or("none", |word| word.as_str())
    }

    async fn async_mut(&mut self, word: String) -> usize {
        self.words.push(word);
        Yield::default().await;
        assert_here("Thing::async_mut");
        self.words.len()
    }

    async fn async_value(mut self) -> Self {
        self.words.push(here().to_string());
        Yield::default().await;
        self
    }

    async fn async_arc(self: Arc<Self>) -> &'static str {
        Yield::default().await;
        here()
    }

    async fn async_pin(self: Pin<&mut Self>) -> &'static str {
        Yield::default().await;
        here()
    }

    #[must_use]
    async fn async_must_use(&self, mut n: u32) -> u32 {
        Yield::default().await;
        n += 1;
        assert_here("Thing::async_must_use");
        n
    }
}

#[alloc_tag]
impl ::std::fmt::Display for Thing {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.write_str(here())
    }
}

/// Methods with and without a body.
#[allow(async_fn_in_trait)]
pub trait Defaults {
    /// Without a body.
    fn required(&self) -> &'static str;

    /// With a body, tagged alone.
    #[alloc_tag]
    fn alone(&self) -> &'static str {
        here()
    }

    /// Required, async.
    async fn required_async(&self, text: &str) -> usize;

    /// Async with a body.
    #[alloc_tag]
    async fn default_async(&self) -> &'static str {
        Yield::default().await;
        here()
    }
}

impl Defaults for Thing {
    #[alloc_tag]
    fn required(&self) -> &'static str {
        here()
    }

    #[alloc_tag]
    async fn required_async(&self, text: &str) -> usize {
        Yield::default().await;
        assert_here("required_async");
        text.len() + self.words.len()
    }
}

/// A whole trait.
#[alloc_tag]
pub trait Whole {
    /// Without a body.
    fn nothing(&self);

    /// With one.
    fn something(&self) -> &'static str {
        here()
    }
}

impl Whole for Thing {
    fn nothing(&self) {}
}

/// A whole module.
#[alloc_tag]
mod inline {
    use super::here;

    pub(crate) const fn constant() -> u32 {
        7
    }

    pub(crate) fn free() -> &'static str {
        here()
    }

    #[codetag::alloc_tag(skip)]
    pub(crate) fn skipped() -> &'static str {
        here()
    }

    #[derive(Default)]
    pub(crate) struct Inner;

    impl Inner {
        pub(crate) fn method(&self) -> &'static str {
            here()
        }
    }

    pub(crate) mod deeper {
        pub(crate) async fn free() -> &'static str {
            super::here()
        }
    }
}

macro_rules! made_by_macro {
    ($(#[$meta:meta])* $name:ident $body:block) => {
        $(#[$meta])*
        #[codetag::alloc_tag]
        fn $name() -> &'static str $body
    };
}
made_by_macro!(
    /// From a macro.
    from_macro {
        let guard = here();
        assert!(!guard.is_empty());
        guard
    }
);

mod renamed {
    pub(crate) use codetag as own_name;

    pub(crate) mod user {
        use super::own_name;

        #[own_name::alloc_tag(crate = super::own_name)]
        pub(crate) fn by_path() -> &'static str {
            super::super::here()
        }

        #[own_name::alloc_tag(crate = own_name, name = "both")]
        pub(crate) async fn by_name() -> &'static str {
            super::super::here()
        }
    }
}

#[alloc_tag]
#[allow(clippy::needless_lifetimes)]
async fn lifetimes<'a, 'b>(a: &'a str, b: &'b mut String) -> &'a str
where
    'b: 'a,
{
    b.push_str(a);
    Yield::default().await;
    assert_here("lifetimes");
    b.as_str()
}

#[alloc_tag]
async fn impl_in_result(fail: bool) -> Result<impl Fn() -> u32, String> {
    if fail {
        return Err("asked for".into());
    }
    Yield::default().await;
    assert_here("impl_in_result");
    Ok(|| 3)
}

#[alloc_tag]
#[inline]
#[track_caller]
fn starts_with_items() -> (&'static str, u32) {
    #![allow(dead_code)]
    use ::std::panic::Location;
    const ONE: u32 = 1;
    fn nested() -> &'static str {
        here()
    }
    assert_eq!(ONE, 1);
    (nested(), Location::caller().line())
}

#[alloc_tag]
async fn arguments_with_attributes(
    #[cfg(any())] gone: Missing,
    #[cfg(not(doctest))] kept: u32,
    #[allow(unused_variables)] ignored: u32,
) -> u32 {
    #![allow(clippy::let_and_return)]
    let sum = kept;
    sum
}

#[alloc_tag]
async fn takes_closures<F>(f: F, g: &(dyn Fn(u32) -> u32 + Sync)) -> u32
where
    F: AsyncOnce<u32>,
{
    let n = f.call().await;
    assert_here("takes_closures");
    g(n)
}

/// A future that is made once.
pub trait AsyncOnce<T> {
    /// Makes it, and says that it can be sent.
    fn call(self) -> impl Future<Output = T> + Send;

    /// Has a default, and asks for a size.
    #[alloc_tag]
    fn boxed(self) -> Pin<Box<dyn Future<Output = T> + Send>>
    where
        Self: Sized + Send + 'static,
        T: 'static,
    {
        Box::pin(async move {
            assert_here("boxed");
            self.call().await
        })
    }
}

impl AsyncOnce<u32> for u32 {
    #[alloc_tag]
    async fn call(self) -> u32 {
        Yield::default().await;
        assert_here("call");
        self
    }
}

/// Generic in a lifetime and a type, and made in a future.
#[derive(Debug)]
pub struct Borrowing<'a, T>(&'a T, Vec<Box<dyn ::std::any::Any + Send>>);

#[alloc_tag]
impl<'a, T: Sync> Borrowing<'a, T> {
    async fn new(from: &'a T) -> Self {
        Yield::default().await;
        assert_here("Borrowing::new");
        Self(from, Vec::new())
    }

    async fn boxed(self: Box<Self>, _: &str) -> Result<&'a T, (&'a T, Self)> {
        Yield::default().await;
        if self.1.is_empty() {
            Ok(self.0)
        } else {
            Err((self.0, *self))
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        assert_here("Borrowing::iter");
        ::std::iter::once(self.0)
    }
}

#[alloc_tag]
impl<T> Whole for &[T] {
    fn nothing(&self) {
        assert_here("&[T]::nothing");
    }
}

#[alloc_tag]
impl dyn Speak {
    fn twice(&self) -> String {
        assert_here("dyn Speak::twice");
        self.word() + &self.word()
    }
}

fn hooks(stop: bool) -> Result<Vec<&'static str>, ::std::num::ParseIntError> {
    let mut seen = Vec::new();
    for n in 0..10 {
        let text = if stop { "x" } else { "1" };
        let one: u32 = codetag::alloc_hooks!(text.parse()?);
        seen.push(codetag::alloc_hooks!(
            "named",
            if n > one { break } else { here() }
        ));
        seen.push(here());
    }
    let boxed: Box<dyn Fn() -> &'static str> = codetag::alloc_hooks!(Box::new(here));
    seen.push(boxed());
    assert_ne!(codetag::alloc_hooks!(here().to_string().as_str()).len(), 0);
    let future = codetag::alloc_hooks!(async { Yield::default().await });
    block_on(future);
    Ok(seen)
}

fn is_send<T: Send>(value: T) -> T {
    value
}

/// What each shape saw, beside what it should have seen.
#[must_use]
pub fn observations() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    let mut saw = |due: &'static str, seen: &str| {
        all.push((due, seen.to_string()));
        all.push(("untagged", here().to_string()));
    };
    saw("plain", plain());
    saw("named", named(1, (2, 3), String::new()));
    saw("generic", generic(0u8));
    saw("generic", generic(String::new()));
    saw("lazily", lazily(&["a"]).next().unwrap());
    saw("recursive", recursive(5));
    assert_eq!(from_c(1), 2);
    saw("guard_named_by_user", guard_named_by_user());
    saw("fails", fails(false).unwrap());
    assert!(fails(true).is_err());
    assert_eq!(ends_in_temporary(&Mutex::new("four")), 4);
    saw("from_macro", from_macro());

    saw("plain_async", block_on(is_send(plain_async())));
    assert_eq!(
        block_on(is_send(borrows(
            "ab",
            &Mutex::new("c".into()),
            "def".chars()
        ))),
        6
    );
    saw(
        "patterns",
        block_on(patterns(1, (2, 3), String::new(), String::new())),
    );
    assert_eq!(block_on(ends_in_temporary_async(Mutex::new("four"))), 4);
    saw("fails_async", block_on(fails_async(false)).unwrap());
    assert!(block_on(fails_async(true)).is_err());
    assert_eq!(
        block_on(coerces(true)).word() + &block_on(coerces(false)).word(),
        "u8u16"
    );
    assert_eq!(
        block_on(coerces_closure(0))(1) + block_on(coerces_closure(2))(1),
        3
    );
    let seen = Mutex::new(Vec::new());
    block_on(unit_async(&seen));
    saw("unit_async", seen.lock().unwrap()[0]);
    block_on(empty_async());
    assert_eq!(block_on(diverges(1)), 1);
    drop(is_send(never()));
    assert_eq!(block_on(returns_impl("a b")).count(), 2);
    assert_eq!(
        block_on(is_send(generic_async::<_, 2>(&1, "ab"))),
        (vec![1, 1], 2)
    );
    saw("recursive_async", block_on(recursive_async(3)));
    saw("recursive_boxed", block_on(recursive_boxed(3)));
    assert_eq!(block_on(boxed_with_question("3")).unwrap(), 3);
    assert_eq!(block_on(returned_block(1)), Ok(2));

    let mut thing = Thing::default();
    saw("Thing::by_ref", thing.by_ref());
    saw("Thing::by_mut", thing.by_mut());
    let (mut thing, seen) = thing.by_value();
    saw("Thing::by_value", seen);
    saw("Thing::by_arc", Arc::new(thing.clone()).by_arc().1);
    saw("Thing::by_pin", Pin::new(&mut thing).by_pin());
    saw("untagged", thing.skipped());
    saw("Thing::with_name", thing.with_name());
    assert_eq!(block_on(is_send(thing.async_ref("x"))), "none");
    assert_eq!(block_on(thing.async_mut("x".into())), 1);
    saw(
        "Thing::async_value",
        &block_on(thing.clone().async_value()).words[1],
    );
    saw(
        "Thing::async_arc",
        block_on(Arc::new(thing.clone()).async_arc()),
    );
    saw(
        "Thing::async_pin",
        block_on(Pin::new(&mut thing).async_pin()),
    );
    assert_eq!(block_on(thing.async_must_use(1)), 2);
    saw("Thing::fmt", &thing.to_string());

    saw("required", thing.required());
    saw("alone", thing.alone());
    assert_eq!(block_on(thing.required_async("ab")), 3);
    saw("default_async", block_on(thing.default_async()));
    thing.nothing();
    saw("Whole::something", thing.something());

    assert_eq!(inline::constant(), 7);
    saw("free", inline::free());
    saw("untagged", inline::skipped());
    saw("Inner::method", inline::Inner.method());
    saw("free", block_on(inline::deeper::free()));
    saw("by_path", renamed::user::by_path());
    saw("by_name", block_on(renamed::user::by_name()));

    assert_eq!(block_on(is_send(lifetimes("a", &mut "b".into()))), "ba");
    assert_eq!(block_on(impl_in_result(false)).unwrap()(), 3);
    assert!(block_on(impl_in_result(true)).is_err());
    let (nested, line) = starts_with_items();
    saw("starts_with_items", nested);
    assert_eq!(line, line!() - 2);
    assert_eq!(block_on(is_send(arguments_with_attributes(1, 2))), 1);
    assert_eq!(block_on(is_send(takes_closures(2u32, &|n| n + 1))), 3);
    assert_eq!(block_on(is_send(AsyncOnce::boxed(2u32))), 2);
    let borrowing = block_on(is_send(Borrowing::new(&1u8)));
    assert_eq!(borrowing.iter().count(), 1);
    assert_eq!(
        block_on(is_send(Box::new(borrowing).boxed("x"))).unwrap(),
        &1
    );
    (&[0u8][..]).nothing();
    let speak: Box<dyn Speak> = Box::new(1u8);
    assert_eq!(speak.twice(), "u8u8");

    let seen = hooks(false).unwrap();
    for (due, seen) in ["alloc_hooks", "untagged"].iter().cycle().zip(&seen[..4]) {
        saw(due, seen);
    }
    saw("untagged", seen[4]);
    assert!(hooks(true).is_err());
    all
}
