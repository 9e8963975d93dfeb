//! Index.
#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
fn main() { codetag::enable().unwrap(); print!("{}", codetag::show_mem()); }
