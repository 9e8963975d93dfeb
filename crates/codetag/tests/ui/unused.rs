#![deny(unused)]

#[codetag::alloc_tag]
fn plain(unused_plain: u32) {}

#[codetag::alloc_tag]
async fn rewritten(unused_async: u32, mut not_changed: u32, _fine: u32) -> u32 {
    not_changed
}

#[codetag::alloc_tag]
#[must_use]
async fn wrapped(unused_wrapped: u32, #[allow(unused)] allowed: u32) -> u32 {
    1
}

fn main() {
    plain(1);
    drop((rewritten(1, 2, 3), wrapped(1, 2)));
}
