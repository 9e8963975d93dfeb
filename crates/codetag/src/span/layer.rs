//! The layer that makes spans tags.

use super::callsite;
use super::live::Live;
use super::stack;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// A layer for `tracing-subscriber` that makes every span a tag: a program that is instrumented with
/// `tracing` needs no attribute.
///
/// What a thread allocates while it is in a span, and in no span or tagged function further in, is charged
/// to the span's tag. There is one tag per `span!` and `#[instrument]` in the source, made when it is first
/// reached and never freed: 32 B and its strings, untagged. Its [`function`](crate::CodeTag::function) is the
/// span's name, its [`name`](crate::CodeTag::name) the span's target where that is not the module path; file and
/// line are the span's. Such tags are not among [`tags()`](crate::tags), which lists what the linker lists;
/// they are in every report once they own something.
///
/// Spans may be left in any order, be entered on several threads or twice on one, be cloned and closed;
/// futures may move between threads at each poll. Entering and leaving costs some 30 instructions beside
/// what the registry does and, after the first time, no allocation. What the registry itself allocates
/// for a span (once per thread and size of its tables) is charged to the span that runs.
///
/// Limits. A guard of a span that is moved *into* a tagged function and dropped in there leaves the span's
/// tag current after the function has returned, until the scope around it ends: the function restores what
/// was current when it began. A layer that is taken away while threads are in spans (by a reload) never
/// hears that they leave them, with the same effect.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// #[global_allocator]
/// static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();
///
/// # if codetag::state().kind == codetag::StateKind::TagsOff { return Ok(()) }
/// tracing_subscriber::registry().with(codetag::TagLayer::new()).init();
/// codetag::enable()?;
///
/// let words: Vec<String> = tracing::info_span!("load").in_scope(|| {
///     (0..1000).map(|n| n.to_string()).collect()
/// });
/// let snapshot = codetag::Snapshot::take();
/// let load = snapshot.usages().find(|u| u.tag.function() == "load").expect("words are live");
/// assert_eq!(load.live_objs, words.len() as u64 + 1);
/// # Ok::<(), codetag::EnableError>(())
/// ```
#[derive(Debug)]
pub struct TagLayer {
    live: Live,
}

impl TagLayer {
    /// A layer. 64 KiB for the spans that are open at a time; of more than it holds, some take longer to
    /// enter.
    #[must_use]
    pub fn new() -> Self {
        Self { live: Live::new() }
    }
}

impl Default for TagLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// Enters a span that has no bucket.
#[cold]
#[inline(never)]
fn enter_slow<S>(id: &Id, ctx: Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(span) = ctx.span(id) {
        stack::enter(id.into_u64(), callsite::tag_of(span.metadata()));
    }
}

impl<S> Layer<S> for TagLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_span() {
            callsite::tag_of(metadata);
        }
        Interest::always()
    }

    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, _ctx: Context<'_, S>) {
        self.live.add(id, attrs.metadata());
    }

    #[inline]
    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        let number = id.into_u64();
        self.live.with_tag(
            number,
            |tag| stack::enter(number, tag),
            || enter_slow(id, ctx),
        );
    }

    #[inline]
    fn on_exit(&self, id: &Id, _ctx: Context<'_, S>) {
        stack::leave(id.into_u64());
    }

    fn on_close(&self, id: Id, _ctx: Context<'_, S>) {
        self.live.remove(&id);
    }

    fn on_id_change(&self, old: &Id, new: &Id, ctx: Context<'_, S>) {
        if let Some(metadata) = ctx.metadata(new) {
            self.live.add(new, metadata);
        }
        self.live.remove(old);
    }
}
