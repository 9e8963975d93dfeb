//! Holds nothing: the package exists for its example, `tracing_spans`.
