//! The switch as patched text: a site is the first byte of an instruction.
//!
//! ```text
//! off   a9 rel32   test eax, imm32     looks at a register and goes on
//! on    e9 rel32   jmp rel32           to the tag work
//! ```
//!
//! In the fast path of an allocation, which is written by hand, the site is its return: see `path/fast.rs`.
//! One store of one byte flips a site, and a thread that runs through it meanwhile sees either instruction. That every processor sees the new one is what the
//! barrier of the protocol is for, which on this platform also empties the pipelines.
//!
//! Each site leaves its address and kind in the section `codetag_sites`, which the linker keeps with
//! the text that the site is in. Only this object's own sites are listed: the symbols of the
//! section's ends are hidden.
//!
//! # Safety model
//!
//! The table is what `site_record` made, in this file and in `path/fast.rs`, so each address in it is that of a site, in text
//! that is mapped as long as this code is. A byte is written by the holder of the lock over changes.

use super::Kind;
use crate::sys;
use core::arch::asm;
use core::slice;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

pub(crate) use crate::sys::TextError as Error;

/// One record of the section.
#[repr(C)]
struct Site {
    /// Address of the site less that of this field.
    offset: i32,
    kind: u16,
    /// The first byte of the site, on and off.
    on: u8,
    off: u8,
}

/// The record of a site that follows at once.
macro_rules! site_record {
    ($kind:literal, $on:literal, $off:literal) => {
        concat!(
            "2: .pushsection codetag_sites, \"aR\", @progbits\n",
            ".balign 4\n",
            ".long 2b - .\n",
            ".short ",
            $kind,
            "\n",
            ".byte ",
            $on,
            ", ",
            $off,
            "\n",
            ".popsection"
        )
    };
}
#[cfg(not(codetag_counters))]
pub(crate) use site_record;

macro_rules! site {
    ($kind:literal) => {{
        // SAFETY: off, it changes the flags only; on, it jumps to the label.
        unsafe {
            asm!(
                site_record!($kind, "0xe9", "0xa9"),
                ".byte 0xa9",
                ".long {on} - 3f",
                "3:",
                on = label { return true },
                options(nomem, nostack),
            );
        }
        false
    }};
}

/// Whether an allocation stores a ref.
#[inline(always)]
pub(crate) fn alloc_site() -> bool {
    site!("0")
}

/// Whether a free or a realloc looks at the ref.
#[inline(always)]
pub(crate) fn free_site() -> bool {
    site!("1")
}

/// Every site of this object.
fn sites() -> &'static [Site] {
    let (start, end): (*const Site, *const Site);
    // SAFETY: two addresses, known when linking. Every program that has this function has sites.
    unsafe {
        asm!(
            ".hidden __start_codetag_sites",
            ".hidden __stop_codetag_sites",
            "lea {start}, [rip + __start_codetag_sites]",
            "lea {end}, [rip + __stop_codetag_sites]",
            start = out(reg) start,
            end = out(reg) end,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: between the symbols lie records of `site_record` and nothing else.
    unsafe { slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

impl Site {
    fn at(&self) -> *mut u8 {
        let field = (&raw const self.offset).cast::<u8>().cast_mut();
        field.wrapping_offset(self.offset as isize)
    }

    /// Writes the first byte, unless it is that byte already.
    fn set(&self, on: bool) -> Result<(), Error> {
        let byte = if on { self.on } else { self.off };
        // SAFETY: text is readable, and bytes of it are written one at a time.
        let now = unsafe { AtomicU8::from_ptr(self.at()) }.load(Relaxed);
        if now == byte {
            return Ok(());
        }
        // SAFETY: either byte makes a whole instruction of the site.
        unsafe { sys::write_text(self.at(), byte) }
    }
}

/// Flips every site of a kind; if one cannot be flipped, none is.
pub(super) fn flip(kind: Kind, on: bool) -> Result<(), Error> {
    let of_kind = || sites().iter().filter(|s| s.kind == kind as u16);
    let failed = of_kind()
        .enumerate()
        .find_map(|(i, s)| Some((i, s.set(on).err()?)));
    let Some((flipped, error)) = failed else {
        return Ok(());
    };
    for site in of_kind().take(flipped) {
        // What could be written could be written back.
        let _ = site.set(!on);
    }
    Err(error)
}
