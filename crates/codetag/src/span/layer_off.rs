//! The twin for builds without tags: a layer that does nothing.

use tracing::Subscriber;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// A layer for `tracing-subscriber` that makes every span a tag; with the tags compiled out, one that does
/// nothing.
#[derive(Debug, Default)]
pub struct TagLayer(());

impl TagLayer {
    /// A layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<S> Layer<S> for TagLayer where S: Subscriber + for<'a> LookupSpan<'a> {}
