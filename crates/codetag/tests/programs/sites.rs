//! The places that the switch patches, as the program's own file lists them.

use object::{Object, ObjectSection};
use std::fs;
use std::ptr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Whether the switch of this build is one of patched text.
pub(crate) const PATCHED: bool = cfg!(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(codetag_portable),
    not(codetag_flag_switch)
));

/// One place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) addr: usize,
    pub(crate) is_alloc: bool,
    /// Its first byte, on and off.
    on_off: [u8; 2],
}

/// A jump and an instruction that does nothing.
const JUMP: [u8; 2] = [0xe9, 0xa9];
/// An instruction of the tag work and a return.
const RETURN: [u8; 2] = [0x48, 0xc3];

impl Site {
    /// Whether it is on now; it is off if not.
    pub(crate) fn is_on(self) -> bool {
        let at = self.on_off.iter().position(|&b| b == self.byte());
        at.expect("one of the two bytes") == 0
    }

    /// Its first byte now.
    fn byte(self) -> u8 {
        let at = ptr::with_exposed_provenance_mut(self.addr);
        // SAFETY: text of this program is readable.
        unsafe { AtomicU8::from_ptr(at) }.load(Relaxed)
    }
}

/// All of them, in the order of the list.
pub(crate) fn sites() -> Vec<Site> {
    let file = fs::read("/proc/self/exe").unwrap();
    let file = object::File::parse(&*file).unwrap();
    let list = file
        .section_by_name("codetag_sites")
        .expect("a list of sites");
    // SAFETY: without preconditions.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    // The program headers stand behind the file's own, of 64 bytes, at the first loaded address.
    let base = headers - 64;
    let word = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
    let at = base + list.address() as usize;
    list.data()
        .unwrap()
        .chunks_exact(8)
        .enumerate()
        .map(|(i, record)| Site {
            addr: (at + i * 8).wrapping_add_signed(word(&record[..4]) as isize),
            is_alloc: record[4..6] == [0, 0],
            on_off: [record[6], record[7]],
        })
        .inspect(|site| {
            let due = if site.is_alloc {
                &[JUMP, RETURN][..]
            } else {
                &[JUMP]
            };
            assert!(due.contains(&site.on_off), "{site:x?}");
        })
        .collect()
}

/// Their first bytes now.
pub(crate) fn bytes() -> Vec<u8> {
    sites().into_iter().map(Site::byte).collect()
}
