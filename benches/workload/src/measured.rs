//! What Callgrind counts.

/// Runs one workload; found by its name.
#[expect(
    unsafe_code,
    reason = "the attribute keeps the name as it is; no other symbol has it"
)]
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) fn codetag_bench_measured(run: &mut dyn FnMut()) {
    run();
}
