//! Which CPU the thread runs on, for counters per CPU (`--cfg codetag_counters`).
//!
//! glibc registers an area for restartable sequences per thread, in which the kernel keeps the number of the
//! CPU: one load from the thread's own memory, where `rdpid` is an instruction that not every processor has and
//! `sched_getcpu` a call. Its field `cpu_id_start` is always the number of a CPU, 0 where the kernel (or
//! Valgrind) knows nothing of such areas.
//!
//! # Safety model
//!
//! The offset is a constant of glibc's for the life of the process, and the area is part of each thread's
//! static block. Elsewhere there is no unsafe code.

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(codetag_portable)
))]
mod by_rseq {
    use core::arch::asm;
    use core::sync::atomic::AtomicIsize;
    use core::sync::atomic::Ordering::Relaxed;

    unsafe extern "C" {
        /// Offset of the area from the thread pointer (glibc 2.35).
        static __rseq_offset: isize;
    }

    /// A copy in this object: glibc's own takes a load more.
    static OFFSET: AtomicIsize = AtomicIsize::new(0);

    /// Number of CPUs that there may be; before the first [`current_cpu`].
    pub(crate) fn cpus() -> usize {
        // SAFETY: set before the program starts, and never changed.
        OFFSET.store(unsafe { __rseq_offset }, Relaxed);
        // SAFETY: no preconditions.
        let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        usize::try_from(n).unwrap_or(1).max(1)
    }

    /// The CPU that the thread ran on a moment ago.
    #[inline(always)]
    pub(crate) fn current_cpu() -> usize {
        let cpu: u32;
        // SAFETY: `cpu_id_start` is the first word of the area, which lives as long as the thread.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{offset}]",
                cpu = out(reg) cpu,
                offset = in(reg) OFFSET.load(Relaxed),
                options(readonly, nostack, preserves_flags),
            );
        }
        cpu as usize
    }
}
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(codetag_portable)
))]
pub(crate) use by_rseq::{cpus, current_cpu};

/// One shard for all.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(codetag_portable)
)))]
pub(crate) fn cpus() -> usize {
    1
}

/// See [`cpus`].
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(codetag_portable)
)))]
pub(crate) fn current_cpu() -> usize {
    0
}
