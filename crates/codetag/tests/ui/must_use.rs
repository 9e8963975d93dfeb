#![deny(unused_must_use)]

#[codetag::alloc_tag]
async fn not_awaited() -> u32 {
    1
}

#[codetag::alloc_tag]
#[must_use]
async fn not_looked_at() -> u32 {
    1
}

async fn uses() {
    not_awaited();
    not_awaited().await;
    not_looked_at().await;
}

fn main() {
    drop(uses());
}
