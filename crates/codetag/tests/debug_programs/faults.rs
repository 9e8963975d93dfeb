//! One wrong call per program.

use crate::armed::arm;
use crate::block::layout;
use crate::figures::enable;
use crate::runner::{Page, Program};
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::thread;

type Line = (&'static str, &'static str);

const SMALL: Line = ("object", "100 bytes requested, alignment 8, at 0x");
const LARGE: Line = ("object", "100000 bytes requested, alignment 8, at 0x");
const NONE: Line = ("object", "none is known there");
const MAKE: Line = ("allocated by", "faults.rs:23 [debug_programs] func:make");
const GIVE: Line = ("freed by", "[debug_programs] func:give");
const AGAIN: Line = ("met in", "[debug_programs] func:again");

/// Who allocates in these programs.
#[codetag::alloc_tag]
#[rustfmt::skip]
fn make(size: usize) -> *mut u8 {
    // SAFETY: not of zero size.
    black_box(unsafe { alloc(layout(size, 8)) })
}

/// Who frees first.
#[codetag::alloc_tag]
fn give(at: *mut u8, size: usize) {
    // SAFETY: what the programs free here is live.
    unsafe { dealloc(at, layout(size, 8)) };
}

/// The wrong call, whose page is awaited.
#[codetag::alloc_tag]
fn again(at: *mut u8, size: usize, align: usize) {
    println!("{at:p}");
    let layout = layout(size, align);
    arm();
    // SAFETY: wrong, which the allocator finds.
    unsafe { dealloc(at, layout) };
}

const fn program(
    name: &'static str,
    run: fn(),
    fault: &'static str,
    lines: &'static [Line],
) -> Program {
    Program {
        name,
        run,
        page: Some(Page { fault, lines }),
    }
}

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![
        program(
            "a_small_object_freed_twice",
            || twice(100),
            "double free",
            &[SMALL, MAKE, GIVE, AGAIN],
        ),
        program(
            "a_large_object_freed_twice",
            || twice(100_000),
            "double free",
            &[LARGE, MAKE, GIVE, AGAIN],
        ),
        program(
            "an_object_freed_by_two_threads",
            by_two_threads,
            "double free",
            &[SMALL, MAKE, GIVE, AGAIN],
        ),
        program(
            "an_object_freed_after_realloc_moved_it",
            moved,
            "double free",
            &[SMALL, MAKE, GROW, AGAIN],
        ),
        program(
            "an_object_freed_again_whose_slab_is_empty",
            empty_slab,
            "double free",
            &[SMALL, MAKE, GIVE, AGAIN],
        ),
        program(
            "a_pointer_into_a_small_object",
            || interior(100, 24),
            "interior pointer",
            &[SMALL, ("offset", "+24 from"), MAKE],
        ),
        program(
            "a_pointer_before_a_small_object",
            || interior(100, -8),
            "interior pointer",
            &[SMALL, ("offset", "-8 from"), MAKE],
        ),
        program(
            "a_pointer_into_a_large_object",
            || interior(100_000, 50_000),
            "interior pointer",
            &[LARGE, ("offset", "+50000 from"), MAKE],
        ),
        program(
            "a_pointer_to_the_stack",
            to_stack,
            "foreign pointer",
            &[NONE, AGAIN],
        ),
        program(
            "a_pointer_to_a_static",
            to_static,
            "foreign pointer",
            &[NONE, AGAIN],
        ),
        program(
            "a_pointer_of_another_allocator",
            of_malloc,
            "foreign pointer",
            &[NONE, AGAIN],
        ),
        program(
            "a_pointer_to_the_head_of_a_chunk",
            to_chunk_head,
            "foreign pointer",
            &[NONE, AGAIN],
        ),
        program(
            "a_pointer_to_a_slot_that_was_never_handed_out",
            to_fresh_slot,
            "foreign pointer",
            &[NONE, AGAIN],
        ),
        program(
            "a_small_object_freed_with_another_size",
            || again(make(100), 99, 8),
            "wrong layout",
            &[SMALL, MAKE, ("given", "99 bytes, alignment 8")],
        ),
        program(
            "a_small_object_freed_with_another_alignment",
            || again(make(100), 100, 16),
            "wrong layout",
            &[SMALL, MAKE, ("given", "100 bytes, alignment 16")],
        ),
        program(
            "a_small_object_freed_as_a_large_one",
            || again(make(100), 100_000, 8),
            "wrong layout",
            &[SMALL, MAKE, ("given", "100000 bytes")],
        ),
        program(
            "a_large_object_freed_as_a_small_one",
            || again(make(100_000), 100, 8),
            "wrong layout",
            &[LARGE, MAKE, ("given", "100 bytes")],
        ),
        program(
            "a_realloc_with_another_size",
            wrong_realloc,
            "wrong layout",
            &[SMALL, MAKE, ("given", "104 bytes")],
        ),
        program(
            "a_byte_behind_a_small_object",
            || written(100, 100, 1),
            "overrun, red zone",
            &[
                SMALL,
                MAKE,
                (
                    "bytes",
                    "+100 from the object's start 0x41 and not 0xcc, wrong up to +100",
                ),
            ],
        ),
        program(
            "bytes_behind_a_large_object",
            || written(100_000, 100_001, 3),
            "overrun, red zone",
            &[
                LARGE,
                MAKE,
                (
                    "bytes",
                    "+100001 from the object's start 0x41 and not 0xcc, wrong up to +100003",
                ),
            ],
        ),
        program(
            "a_byte_before_a_small_object",
            || written(100, -16, 2),
            "underrun, red zone",
            &[
                SMALL,
                MAKE,
                (
                    "bytes",
                    "-16 from the object's start 0x41 and not 0xcc, wrong up to -15",
                ),
            ],
        ),
        program(
            "a_realloc_after_an_overrun",
            realloc_after_overrun,
            "overrun, red zone",
            &[SMALL, MAKE],
        ),
        program(
            "a_free_object_written_to",
            || written_after_free(40, 1),
            "use after free",
            &[
                SMALL,
                MAKE,
                GIVE,
                (
                    "bytes",
                    "+40 from the object's start 0x41 and not 0x6b, wrong up to +40",
                ),
            ],
        ),
        program(
            "the_first_word_of_a_free_object_written_to",
            || written_after_free(0, 8),
            "use after free",
            &[SMALL, MAKE, GIVE, ("bytes", "+0 from")],
        ),
        program(
            "the_last_byte_of_a_free_object_written_to",
            || written_after_free(99, 1),
            "use after free",
            &[SMALL, MAKE, GIVE, ("bytes", "0x41 and not 0xa5")],
        ),
        program(
            "a_byte_behind_a_free_object_written_to",
            || written_after_free(101, 1),
            "overrun, red zone",
            &[SMALL, MAKE, GIVE, ("bytes", "0x41 and not 0xbb")],
        ),
        program(
            "an_untagged_object_freed_twice",
            untagged_twice,
            "double free",
            &[SMALL, ("allocated by", "untagged"), GIVE],
        ),
    ];
    if crate::figures::has_tags() {
        // Of an object whose record is gone, only the tag ref tells.
        all.push(program(
            "bytes_over_the_record_of_an_object",
            over_the_record,
            "overrun, the record",
            &[("object", "in the slot at 0x"), MAKE],
        ));
    }
    all
}

const GROW: Line = ("freed by", "[debug_programs] func:grow");

fn twice(size: usize) {
    let at = make(size);
    give(at, size);
    again(at, size, 8);
}

fn by_two_threads() {
    let at = make(100);
    let address = at.expose_provenance();
    thread::spawn(move || give(std::ptr::with_exposed_provenance_mut(address), 100))
        .join()
        .unwrap();
    again(at, 100, 8);
}

#[codetag::alloc_tag]
fn grow(at: *mut u8) -> *mut u8 {
    // SAFETY: the object is live, with this layout.
    black_box(unsafe { realloc(at, layout(100, 8), 300) })
}

fn moved() {
    let at = make(100);
    let moved = grow(at);
    assert_ne!(moved, at);
    again(at, 100, 8);
}

/// More objects than a heap keeps empty slabs for, so that slabs go back to their chunks.
fn empty_slab() {
    let all: Vec<_> = (0..8000).map(|_| make(100)).collect();
    let first = all[0];
    for at in all {
        give(at, 100);
    }
    again(first, 100, 8);
}

fn interior(size: usize, offset: isize) {
    again(make(size).wrapping_offset(offset), size, 8);
}

fn to_stack() {
    let mut on_stack = [0_u64; 16];
    again(black_box(&mut on_stack).as_mut_ptr().cast(), 100, 8);
}

fn to_static() {
    static STATIC: [u64; 16] = [0; 16];
    again(STATIC.as_ptr().cast_mut().cast(), 100, 8);
}

fn of_malloc() {
    // SAFETY: the C library's own.
    again(unsafe { libc::malloc(100) }.cast(), 100, 8);
}

fn to_chunk_head() {
    again(make(100).map_addr(|a| a & !((2 << 20) - 1)), 100, 8);
}

fn to_fresh_slot() {
    // The last slot of the slab, but for its tail.
    let slot_bytes = 160;
    again(
        make(100).map_addr(|a| a + (65_535 - a % 65_536) / slot_bytes * slot_bytes - slot_bytes),
        100,
        8,
    );
}

fn wrong_realloc() {
    let at = make(100);
    println!("{at:p}");
    arm();
    // SAFETY: wrong, which the allocator finds.
    black_box(unsafe { realloc(at, layout(104, 8), 300) });
}

fn write(at: *mut u8, offset: isize, n: usize) {
    // SAFETY: in the slot or the block, though not in the object.
    unsafe { black_box(at.wrapping_offset(offset)).write_bytes(0x41, n) };
}

fn written(size: usize, offset: isize, n: usize) {
    let at = make(size);
    write(at, offset, n);
    again(at, size, 8);
}

fn realloc_after_overrun() {
    let at = make(100);
    write(at, 100, 8);
    println!("{at:p}");
    arm();
    // SAFETY: wrong, which the allocator finds.
    black_box(unsafe { realloc(at, layout(100, 8), 300) });
}

fn written_after_free(offset: isize, n: usize) {
    let at = make(100);
    give(at, 100);
    write(at, offset, n);
    println!("{at:p}");
    let layout = layout(100, 8);
    // Whoever gets the slot next meets it. A bin is used up before what was freed comes back.
    for _ in 0..10_000 {
        // SAFETY: not of zero size.
        black_box(unsafe { alloc_zeroed(layout) });
    }
}

fn untagged_twice() {
    // SAFETY: not of zero size.
    let at = black_box(unsafe { alloc(layout(100, 8)) });
    give(at, 100);
    again(at, 100, 8);
}

fn over_the_record() {
    enable();
    let at = make(100);
    // As far as the end of the slot, of 160 bytes, 16 of them before the object.
    write(at, 100, 160 - 16 - 100);
    println!("{:p}", at);
    let layout = layout(100, 8);
    arm();
    // SAFETY: wrong, which the allocator finds.
    unsafe { dealloc(at, layout) };
}
