//! The fast path of an allocation by hand, for Linux on x86-64; `fast_plain.rs` is the same in Rust, for everywhere else.
//!
//! By hand, since the site of the switch is the function's own return:
//!
//! ```text
//! off   c3               ret                         the bytes behind it are never reached
//! on    48 8b 7c 39 10   mov rdi, [rcx + rdi + 16]   the first instruction of the tag work
//! ```
//!
//! While profiling is off no instruction is there for its sake; while it is on those of the work alone are, with no taken jump
//! among them. All but the first use of a tag lies in two lines of the instruction cache, wherever the function comes to lie.
//!
//! # Safety model
//!
//! The function does what that of `fast_plain.rs` does, with the same loads and stores in the same order, and goes on in the same
//! functions. It has no frame and saves nothing, so a jump to another function is a call in its place, and a return may
//! stand anywhere.

use super::super::class::{BY_UNITS, Class, RECIPROCAL_SPARE, SMALL_MAX};
use super::super::heap::{Bin, Heap};
use super::super::slab::Slot;
use super::{alloc_slow, alloc_unusual};
use crate::sys::HotWords;
use core::arch::naked_asm;
use core::mem::offset_of;

#[cfg(not(codetag_off))]
use super::super::class::{RECIPROCAL_BITS, SLAB_BYTES};
#[cfg(not(codetag_off))]
use super::super::ext::{obj_exts::store_first, switch::form::site_record};
#[cfg(not(codetag_off))]
use crate::tag::{CodeTag, NO_ID};

/// The function, with what it ends in. The class and the bytes stay in `rdi` and `rsi`, and the bin's word in `rdx`, where the
/// slow path wants them.
macro_rules! alloc {
    ($($tail:expr,)* ; $($operands:tt)*) => {
        /// An object of `bytes` at a multiple of `align`.
        ///
        /// # Safety
        ///
        /// As of `GlobalAlloc::alloc`.
        #[unsafe(naked)]
        pub(super) unsafe extern "C-unwind" fn alloc(align: usize, bytes: usize) -> *mut u8 {
            naked_asm!(
                ".p2align 6",
                ".cfi_startproc",
                // See `is_usual`.
                "lea rax, [rsi - 1]",
                "shr rax, 10",
                "or rax, rdi",
                "cmp rax, 16",
                "jae {unusual}",
                // See `Class::of_small`.
                "lea eax, [rsi + 7]",
                "shr eax, 3",
                "lea rcx, [rip + {by_units}]",
                "movzx edi, word ptr [rcx + 2*rax]",
                // See `sys::hot_heap`.
                "mov rcx, qword ptr [rip + codetag_hot_words@GOTTPOFF]",
                "mov rcx, qword ptr fs:[rcx]",
                // See `Bin::pop`.
                "mov rdx, qword ptr [rcx + rdi + {left}]",
                "test edx, {spare}",
                "je {slow}",
                "mov rax, qword ptr [rcx + rdi + {head}]",
                "mov r8, qword ptr [rax]",
                "lea r9, [rdx - 1]",
                "mov qword ptr [rcx + rdi + {left}], r9",
                "mov qword ptr [rcx + rdi + {head}], r8",
                $($tail,)*
                ".cfi_endproc",
                unusual = sym alloc_unusual,
                slow = sym alloc_slow,
                by_units = sym BY_UNITS,
                left = const offset_of!(Heap, bins) + offset_of!(Bin, left),
                head = const offset_of!(Heap, bins) + offset_of!(Bin, head),
                spare = const RECIPROCAL_SPARE,
                $($operands)*
            )
        }
    };
}

#[cfg(codetag_off)]
alloc! { "ret", ; }

#[cfg(not(codetag_off))]
const REFS: usize = offset_of!(Heap, bins) + offset_of!(Bin, refs);

// What stands in the text as a number.
const _: () = assert!(SMALL_MAX >> 10 == 16);
const _: () = assert!(BY_UNITS.len() == SMALL_MAX / 8 + 1 && size_of::<Class>() == 2);
const _: () = assert!(offset_of!(HotWords, heap) == 0 && offset_of!(Slot, next) == 0);
#[cfg(not(codetag_off))]
const _: () = assert!(REFS < 128 && SLAB_BYTES == 1 << 16);
#[cfg(not(codetag_off))]
const _: () = assert!(NO_ID == u32::MAX && size_of_val(&NO_ID) == 4);

#[cfg(not(codetag_off))]
alloc! {
    // Where the refs are: `mov rdi, qword ptr [rcx + rdi + {refs}]`, its first byte a return's.
    site_record!("0", "0x48", "0xc3"),
    ".byte 0xc3, 0x8b, 0x7c, 0x39, {refs}",
    // The current tag.
    "mov rcx, qword ptr [rcx + {tag_word}]",
    "mov rcx, qword ptr [rcx]",
    // The ref, unless the tag has no id yet: see `NO_ID`.
    "add esi, dword ptr [rcx + {id_word}]",
    "jc 3f",
    // Which of them it is.
    "movzx ecx, ax",
    "imul rcx, rdx",
    "shr rcx, {reciprocal_bits}",
    "mov dword ptr [rdi + 4*rcx], esi",
    "ret",
    "3:",
    // The addition of `NO_ID` took one.
    "inc esi",
    "mov rdi, rax",
    "mov rdx, rcx",
    "jmp {store_first}",
    ;
    refs = const REFS,
    tag_word = const offset_of!(Heap, tag_word),
    id_word = const offset_of!(CodeTag, id_word),
    reciprocal_bits = const RECIPROCAL_BITS,
    store_first = sym store_first,
}
