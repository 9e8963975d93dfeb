use std::rc::Rc;

async fn wait() {}

#[codetag::alloc_tag]
async fn holds_rc() -> usize {
    let shared = Rc::new(1);
    wait().await;
    Rc::strong_count(&shared)
}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(holds_rc());
}
