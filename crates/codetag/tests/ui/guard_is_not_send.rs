#[codetag::alloc_tag]
fn tagged() {}

fn is_send<T: Send>(_: &T) {}

fn main() {
    tagged();
    let tag = codetag::tags().next().unwrap();
    let guard = codetag::__private::TagGuard::enter(tag);
    is_send(&guard);
}
