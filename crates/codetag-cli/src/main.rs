//! The command `codetag`.
fn main() {}
