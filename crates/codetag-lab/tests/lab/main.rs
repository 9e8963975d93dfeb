//! The models against kernels that ran: files under `tests/data`, see its README.

mod boot;
mod changed;
mod data;
mod lists;
mod long;
mod orders;
mod replay_slob;
mod replay_slub;
mod snapshot;
mod static_part;
