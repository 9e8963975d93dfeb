//! Allocates on and off, checks what is said of it, and prints `ok`.

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

#[codetag::alloc_tag]
fn thousand(n: usize) -> Vec<Box<[u8]>> {
    (0..1000).map(|i| vec![0; 1 + i % n].into()).collect()
}

fn live_objs() -> u64 {
    codetag::Snapshot::take()
        .usages()
        .map(|u| u.live_objs)
        .sum()
}

fn main() {
    let has_tags = codetag::state().kind != codetag::StateKind::TagsOff;
    for n in [10, 100, 30_000] {
        assert_eq!(codetag::enable().is_ok(), has_tags);
        let held = thousand(n);
        assert_eq!(live_objs(), if has_tags { 1001 } else { 0 });
        drop(held);
        assert_eq!(live_objs(), 0);
        codetag::disable();
        drop(thousand(n));
        assert_eq!(live_objs(), 0);
    }
    println!("ok");
}
