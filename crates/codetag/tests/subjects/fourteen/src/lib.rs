//! Thirteen tagged functions and one in a dependency that is named only as `_`. A linker or a compiler
//! that drops what nobody calls would drop most of their tags.

use codetag::alloc_tag;
use codetag_subject_only_linked as _;

/// Called by the binary.
#[alloc_tag]
pub fn called() -> Vec<u8> {
    nested_home();
    vec![1]
}

fn nested_home() {
    #[alloc_tag]
    fn nested() {}
    nested();
}

#[alloc_tag]
#[allow(dead_code)]
fn dead() -> Box<u8> {
    Box::new(1)
}

/// Never instantiated.
#[alloc_tag]
pub fn generic<T: Clone>(value: &T) -> Vec<T> {
    vec![value.clone()]
}

/// Returns what runs later.
#[alloc_tag(name = "with a name")]
pub fn returns_impl() -> impl Iterator<Item = String> {
    ["a"].into_iter().map(String::from)
}

/// Never polled.
#[alloc_tag]
pub async fn asynchronous() -> String {
    String::from("a")
}

/// Never called from C.
#[alloc_tag]
pub extern "C" fn from_c() {}

mod unused {
    #[codetag::alloc_tag]
    #[allow(dead_code)]
    pub(crate) fn in_unused_module() {}
}

/// Has a default method.
pub trait Defaults {
    /// Without a body, without a tag.
    fn required(&self);

    /// Never called.
    #[alloc_tag]
    fn default_method(&self) -> String {
        String::new()
    }
}

/// Never instantiated.
#[derive(Debug)]
pub struct Holder<T>(T);

#[alloc_tag]
impl<T: Clone> Holder<T> {
    /// Never called.
    pub fn method(&self) -> Self {
        Self(self.0.clone())
    }

    /// Never polled.
    pub async fn async_method(&self) -> Self {
        self.method()
    }

    /// Has no tag.
    pub const fn constant() -> u32 {
        1
    }
}

#[alloc_tag]
impl Defaults for Holder<u8> {
    fn required(&self) {}
}

#[allow(dead_code)]
fn home_of_an_expression() -> Vec<u8> {
    codetag::alloc_hooks!(vec![1])
}
