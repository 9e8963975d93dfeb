//! The tagged functions of these programs. Each also tells the account whom it allocates for.

use crate::watch::labelled;
use codetag::CodeTag;

/// Number of labels, 0 included, which stands for no scope.
pub(crate) const LABELS: usize = 9;

#[codetag::alloc_tag]
fn parse<R>(f: impl FnOnce() -> R) -> R {
    labelled(1, f)
}

#[codetag::alloc_tag]
fn index<R>(f: impl FnOnce() -> R) -> R {
    labelled(2, f)
}

#[codetag::alloc_tag(name = "pages kept")]
fn cache<R>(f: impl FnOnce() -> R) -> R {
    labelled(3, f)
}

struct Store;

impl Store {
    #[codetag::alloc_tag]
    fn insert<R>(&self, f: impl FnOnce() -> R) -> R {
        labelled(4, f)
    }
}

trait Visit {
    #[codetag::alloc_tag]
    fn visit<R>(&self, f: impl FnOnce() -> R) -> R {
        labelled(5, f)
    }
}

impl Visit for Store {}

mod inner {
    use super::labelled;

    /// Another function of a name that exists already.
    #[codetag::alloc_tag]
    pub(super) fn parse<R>(f: impl FnOnce() -> R) -> R {
        labelled(6, f)
    }
}

fn hooked<R>(f: impl FnOnce() -> R) -> R {
    codetag::alloc_hooks!(labelled(7, f))
}

fn named_hook<R>(f: impl FnOnce() -> R) -> R {
    codetag::alloc_hooks!("one expression", labelled(8, f))
}

/// Runs `f` in the scope of a label's function; of 0: in whatever scope is active.
pub(crate) fn within<R>(label: u8, f: impl FnOnce() -> R) -> R {
    match label {
        1 => parse(f),
        2 => index(f),
        3 => cache(f),
        4 => Store.insert(f),
        5 => Store.visit(f),
        6 => inner::parse(f),
        7 => hooked(f),
        8 => named_hook(f),
        _ => f(),
    }
}

/// The label whose function a tag is. None for tags that no program here enters.
pub(crate) fn of(tag: &CodeTag) -> Option<usize> {
    let here = module_path!();
    let is_inner = tag.module_path().strip_prefix(here) == Some("::inner");
    if tag.module_path() != here && !is_inner {
        return None;
    }
    match (tag.function(), tag.name(), is_inner) {
        ("parse", None, false) => Some(1),
        ("index", None, false) => Some(2),
        ("cache", Some("pages kept"), false) => Some(3),
        ("insert", None, false) => Some(4),
        ("visit", None, false) => Some(5),
        ("parse", None, true) => Some(6),
        ("alloc_hooks", None, false) => Some(7),
        ("alloc_hooks", Some("one expression"), false) => Some(8),
        _ => None,
    }
}
