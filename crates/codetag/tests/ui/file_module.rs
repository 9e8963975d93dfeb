#[codetag::alloc_tag]
mod parts;

fn main() {
    parts::part();
}
