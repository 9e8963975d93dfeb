//! Holds nothing: the package exists for its example, `async_tasks`.
