//! Linux on x86-64.
//!
//! # Safety model
//!
//! As in the parent module. The thread's hot words are a symbol of this object's own thread-local
//! storage, addressed in the initial-exec model: only the running thread can reach them, they are
//! plain words without destructor, and they live as long as the thread.

use super::HotWords;
use core::alloc::Layout;
use core::arch::{asm, global_asm};
use core::ptr;

/// Maps `bytes` of zeroed memory, page-aligned; null if the system has none.
pub(crate) fn map_zeroed(bytes: usize) -> *mut u8 {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice disturbs nothing.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        at.cast()
    }
}

/// Whether [`map_aligned`] does anything here.
pub(crate) const MAPS_ALIGNED: bool = true;

/// Maps zeroed memory of a layout whose alignment is more than a page's and whose size is a multiple of
/// it; null if the system has none.
pub(crate) fn map_aligned(layout: Layout) -> *mut u8 {
    let (bytes, align) = (layout.size(), layout.align());
    // Below an aligned mapping there mostly is room for another.
    let at = map_zeroed(bytes);
    if at.is_null() || at.addr().is_multiple_of(align) {
        return at;
    }
    // SAFETY: mapped just now.
    unsafe { unmap(at, bytes) };
    let at = map_zeroed(bytes + align);
    if at.is_null() {
        return at;
    }
    let before = at.addr().next_multiple_of(align) - at.addr();
    // SAFETY: the parts before and behind are of the mapping, whole pages, and used by nobody.
    unsafe {
        if before > 0 {
            unmap(at, before);
        }
        unmap(at.add(before + bytes), align - before);
        at.add(before)
    }
}

/// Gives back what [`map_zeroed`] or [`map_aligned`] returned, or whole pages of it.
///
/// # Safety
///
/// `at` and `bytes` are such, and nobody uses them any more.
pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: as the caller's.
    unsafe { libc::munmap(at.cast(), bytes) };
}

/// Gives the pages of a range back to the system; they read as anything until written. Returns
/// whether the system took them.
///
/// # Safety
///
/// The range is page-aligned, mapped, and holds nothing that is still needed.
pub(crate) unsafe fn release_pages(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: as the caller's.
    unsafe { libc::madvise(at.cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Asks for huge pages in a range, or for none any more. A system that knows none goes on without.
///
/// # Safety
///
/// The range is page-aligned and mapped.
pub(crate) unsafe fn want_huge_pages(at: *mut u8, bytes: usize, wanted: bool) {
    let advice = if wanted {
        libc::MADV_HUGEPAGE
    } else {
        libc::MADV_NOHUGEPAGE
    };
    // SAFETY: as the caller's; it changes no content.
    unsafe { libc::madvise(at.cast(), bytes, advice) };
}

const MEMBARRIER_PRIVATE_EXPEDITED_SYNC_CORE: libc::c_int = 1 << 5;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: libc::c_int = 1 << 6;

/// Makes every running thread of the process pass a full memory barrier and fetch its instructions
/// anew. Returns whether the system can do that.
pub(crate) fn barrier_all_threads() -> bool {
    let call = |command: libc::c_int| {
        // SAFETY: membarrier touches no memory of the caller's; registering twice is harmless.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    call(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
        && call(MEMBARRIER_PRIVATE_EXPEDITED_SYNC_CORE)
}

/// Monotonic time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a timespec to be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}

/// Lets another thread run.
pub(crate) fn yield_now() {
    // SAFETY: no preconditions.
    unsafe { libc::sched_yield() };
}

/// Keeps the optimiser from merging two copies of the code in front of it. No instruction.
#[inline(always)]
pub(crate) fn keep_apart() {
    // SAFETY: nothing is done.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 32",
    ".globl codetag_hot_words",
    ".hidden codetag_hot_words",
    ".type codetag_hot_words,@object",
    ".size codetag_hot_words,32",
    "codetag_hot_words:",
    ".quad {heap}",
    ".quad 0",
    ".quad {word}",
    ".quad 0",
    ".popsection",
    heap = sym crate::alloc::NO_HEAP,
    word = sym crate::alloc::UNTAGGED_WORD,
);

/// Reads hot word `$offset / 8` of this thread: one instruction for the offset, one load.
macro_rules! read_hot {
    ($offset:literal) => {{
        let word: usize;
        // SAFETY: the symbol is 32 bytes of this object's static thread-local storage.
        unsafe {
            asm!(
                "mov {w}, qword ptr [rip + codetag_hot_words@GOTTPOFF]",
                concat!("mov {w}, qword ptr fs:[{w} + ", $offset, "]"),
                w = out(reg) word,
                options(readonly, nostack, preserves_flags, pure),
            );
        }
        word
    }};
}

/// The address of this thread's heap; of the heap that is always empty while it has none.
#[inline(always)]
pub(crate) fn hot_heap() -> usize {
    read_hot!("0")
}

/// Whether a number is that of this thread's heap.
#[inline(always)]
pub(crate) fn is_hot_number(number: u64) -> bool {
    // SAFETY: the symbol is 32 bytes of this object's static thread-local storage. One instruction less
    // than to read the word and compare it.
    unsafe {
        asm!(
            "mov {w}, qword ptr [rip + codetag_hot_words@GOTTPOFF]",
            "cmp {number}, qword ptr fs:[{w} + 8]",
            "jne {other}",
            w = out(reg) _,
            number = in(reg) number,
            other = label { return false },
            options(readonly, nostack),
        );
    }
    true
}

/// The address of this thread's current tag word.
#[inline(always)]
pub(crate) fn hot_tag_word() -> usize {
    read_hot!("16")
}

/// What this thread's life has come to; the meaning is `thread`'s.
#[inline(always)]
pub(crate) fn hot_phase() -> usize {
    read_hot!("24")
}

/// The hot words of this thread. They live as long as the thread.
#[inline(always)]
pub(crate) fn hot_words() -> &'static HotWords {
    let at: usize;
    // SAFETY: the symbol's offset and the thread's base are readable in every thread.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + codetag_hot_words@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(readonly, nostack, pure),
        );
    }
    // SAFETY: the symbol is 32 bytes, aligned to 8, that hold four words; whoever keeps the reference
    // beyond the thread's life says why it is not used then.
    unsafe { &*ptr::with_exposed_provenance(at) }
}

/// Sets all four hot words of this thread.
#[inline(never)]
pub(crate) fn set_hot(heap: usize, number: u64, tag_word: usize, phase: usize) {
    // SAFETY: the symbol is 32 bytes of this object's static thread-local storage, and no
    // reference to them exists anywhere.
    unsafe {
        asm!(
            "mov {w}, qword ptr [rip + codetag_hot_words@GOTTPOFF]",
            "mov qword ptr fs:[{w}], {a}",
            "mov qword ptr fs:[{w} + 8], {b}",
            "mov qword ptr fs:[{w} + 16], {c}",
            "mov qword ptr fs:[{w} + 24], {d}",
            w = out(reg) _,
            a = in(reg) heap,
            b = in(reg) number,
            c = in(reg) tag_word,
            d = in(reg) phase,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, map_aligned, map_zeroed, unmap};

    #[test]
    fn aligned_mappings_are_aligned_zero_and_apart() {
        const BYTES: usize = 2 << 20;
        let layout = Layout::from_size_align(BYTES, BYTES).unwrap();
        // Pages between them, so that no mapping lies aligned below the one before.
        let all: Vec<(*mut u8, *mut u8)> = (1..=8)
            .map(|n| (map_aligned(layout), map_zeroed(n * 4096)))
            .collect();
        for (n, &(at, _)) in all.iter().enumerate() {
            assert!(!at.is_null() && at.addr().is_multiple_of(BYTES));
            for offset in (0..BYTES).step_by(4096) {
                // SAFETY: within the mapping.
                unsafe {
                    assert_eq!(*at.add(offset), 0);
                    *at.add(offset) = n as u8 + 1;
                }
            }
        }
        for (n, &(at, between)) in all.iter().enumerate() {
            // SAFETY: within the mapping; then given back, once.
            unsafe {
                assert_eq!(*at.add(BYTES - 4096), n as u8 + 1);
                unmap(at, BYTES);
                unmap(between, (n + 1) * 4096);
            }
        }
    }

    #[test]
    fn what_the_system_does_not_have_is_null() {
        let layout = Layout::from_size_align(1 << 50, 2 << 20).unwrap();
        assert!(map_aligned(layout).is_null());
    }
}
