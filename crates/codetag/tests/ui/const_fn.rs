#[codetag::alloc_tag]
const fn table() -> [u8; 4] {
    [0; 4]
}

const TABLE: [u8; 4] = table();

fn main() {
    assert_eq!(TABLE, [0; 4]);
}
