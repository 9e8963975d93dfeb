//! Touches as many fresh pages as its argument says, of room for 4,000, and does nothing else: without a runtime its
//! own start takes the same few faults each time.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

const PAGE_BYTES: usize = 4096;
const ROOM_PAGES: usize = 4_000;

const MMAP: usize = 9;
const EXIT: usize = 60;
const PRCTL: usize = 157;
const PR_SET_THP_DISABLE: usize = 41;
const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;

global_asm!(
    ".globl _start",
    "_start:",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

/// `stack` is as the kernel leaves it: the number of arguments, then pointers to them.
extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: there are `argc` pointers to strings that end in zero; the room has as many pages as are touched at
    // most.
    unsafe {
        let mut pages = 0;
        if *stack > 1 {
            let mut digit = *stack.add(2) as *const u8;
            while *digit != 0 {
                pages = 10 * pages + (*digit - b'0') as usize;
                digit = digit.add(1);
            }
        }
        // With huge pages one fault would give 512 pages.
        let failed = call(PRCTL, [PR_SET_THP_DISABLE, 1, 0, 0, 0, 0]) != 0;
        let bytes = ROOM_PAGES * PAGE_BYTES;
        let room = call(MMAP, [0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]);
        if !failed && room > 0 && pages <= ROOM_PAGES {
            for page in 0..pages {
                (room as *mut u8).add(page * PAGE_BYTES).write_volatile(1);
            }
            call(EXIT, [0; 6]);
        }
        call(EXIT, [1, 0, 0, 0, 0, 0]);
    }
    loop {}
}

/// A system call.
///
/// # Safety
///
/// As of the call.
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the registers are those of the kernel's convention.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
