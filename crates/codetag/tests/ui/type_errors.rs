#[codetag::alloc_tag]
fn plain() -> String {
    1u8
}

#[codetag::alloc_tag]
async fn rewritten(n: u32) -> String {
    let text = n.to_string();
    if text.is_empty() {
        return 2u8;
    }
    3u8
}

#[codetag::alloc_tag]
async fn no_value(n: u32) -> u32 {
    let _ = n + 1;
}

#[codetag::alloc_tag]
#[must_use]
async fn wrapped() -> String {
    4u8
}

fn main() {
    plain();
    drop((rewritten(1), no_value(1), wrapped()));
}
