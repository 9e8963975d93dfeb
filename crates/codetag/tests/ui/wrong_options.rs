#[codetag::alloc_tag(label = "x")]
fn unknown() {}

#[codetag::alloc_tag(name = 3)]
fn not_a_string() {}

#[codetag::alloc_tag(name = "")]
fn empty() {}

#[codetag::alloc_tag(name = "a", name = "b")]
fn twice() {}

#[codetag::alloc_tag(skip)]
fn skipped_alone() {}

#[codetag::alloc_tag(name = "a" skip)]
fn no_comma() {}

struct Thing;

#[codetag::alloc_tag(name = "all")]
impl Thing {
    fn method(&self) {}
}

#[codetag::alloc_tag]
impl Thing {
    #[codetag::alloc_tag(nonsense)]
    fn other(&self) {}
}

fn main() {
    unknown();
    not_a_string();
    empty();
    twice();
    skipped_alone();
    no_comma();
    Thing.method();
    Thing.other();
}
