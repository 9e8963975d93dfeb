//! The tag of a callsite: made once, never freed, the same for every subscriber.
//!
//! A table of lists that only grow. Looking up takes no lock, so that it may happen wherever a span is
//! made; so does adding: an allocator below ours may make spans itself.

use crate::scope::TagGuard;
use crate::tag::{CodeTag, UNTAGGED};
use core::ptr;
use std::sync::OnceLock;
use tracing::Metadata;

/// Heads of the lists; a program has some hundred callsites of spans.
const HEADS: usize = 512;

static TABLE: [Link; HEADS] = [const { OnceLock::new() }; HEADS];

type Link = OnceLock<Box<Node>>;

struct Node {
    metadata: &'static Metadata<'static>,
    tag: CodeTag,
    next: Link,
}

/// The tag of the callsite that `metadata` belongs to.
pub(super) fn tag_of(metadata: &'static Metadata<'static>) -> &'static CodeTag {
    let mut link = head(metadata);
    loop {
        match link.get() {
            Some(node) if ptr::eq(node.metadata, metadata) => return &node.tag,
            Some(node) => link = &node.next,
            None => add(link, metadata),
        }
    }
}

fn head(metadata: &'static Metadata<'static>) -> &'static Link {
    // Statics of this type lie some hundred bytes apart.
    let mixed = (ptr::from_ref(metadata).addr() >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &TABLE[mixed >> (usize::BITS - HEADS.ilog2())]
}

/// Hangs the callsite behind the last of its list, unless another thread comes first.
#[cold]
fn add(link: &Link, metadata: &'static Metadata<'static>) {
    // For good, and nobody's: not the span's that happens to run.
    let _nobody = TagGuard::enter(&UNTAGGED);
    let node = Box::new(Node {
        metadata,
        tag: CodeTag::__new(Box::leak(text(metadata)), metadata.line().unwrap_or(0), 0),
        next: OnceLock::new(),
    });
    // Not `get_or_init`: making the node may come back here. If another was faster, its text is lost.
    drop(link.set(node));
}

/// Module path, function, file and name of a span, as [`CodeTag`] keeps them: the span's name for the
/// function, its target for the name if that is not the module path.
fn text(metadata: &Metadata<'_>) -> Box<str> {
    let module_path = metadata.module_path().unwrap_or(metadata.target());
    let name = Some(metadata.target()).filter(|target| *target != module_path);
    let file = metadata.file().unwrap_or("<unknown>");
    [module_path, metadata.name(), file, name.unwrap_or("")]
        // The parts are separated by it.
        .map(|part| part.replace('\0', "_"))
        .join("\0")
        .into_boxed_str()
}
