#[codetag::alloc_tag]
struct Index {
    words: Vec<String>,
}

#[codetag::alloc_tag]
pub const LIMIT: usize = 3;

#[codetag::alloc_tag]
unsafe extern "C" {
    fn abs(n: i32) -> i32;
}

trait Reads {
    #[codetag::alloc_tag]
    fn read(&self) -> u8;
}

fn main() {
    let index = Index { words: Vec::new() };
    let _ = index.words;
    let _ = LIMIT;
    let _ = abs;
}
