//! Everything that asks the operating system.
