//! The models. Each states its invariant; each is followed by the broken twins that must fail.

#![forbid(unsafe_code)]

mod hand_over;
mod lock;
mod remote_frees;
mod toggle;
