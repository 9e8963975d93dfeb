//! Arithmetic that every allocator of the kernel uses, under the kernel's names.

/// Bytes of a page. All five models, as all kernels they are checked against, have 4 KiB pages.
pub const PAGE_BYTES: u64 = 4096;

/// Power of two of [`PAGE_BYTES`].
pub const PAGE_SHIFT: u32 = 12;

/// A cache line of x86, which `SLAB_HWCACHE_ALIGN` aligns to.
pub const CACHE_LINE_BYTES: u32 = 64;

/// Largest order up to which the kernel expects allocations to succeed: `PAGE_ALLOC_COSTLY_ORDER`.
pub const COSTLY_ORDER: u32 = 3;

/// Largest order of the page allocator.
pub const MAX_ORDER: u32 = 10;

/// Position of the highest bit, from 1; 0 for 0.
#[must_use]
pub fn fls(n: u32) -> u32 {
    u32::BITS - n.leading_zeros()
}

/// Smallest order whose pages hold `bytes`; 0 for 0.
#[must_use]
pub fn get_order(bytes: u64) -> u32 {
    bytes
        .div_ceil(PAGE_BYTES)
        .max(1)
        .next_power_of_two()
        .trailing_zeros()
}

/// `n` rounded up to a multiple of `align`, a power of two.
#[must_use]
pub fn align_up(n: u32, align: u32) -> u32 {
    n.next_multiple_of(align)
}

/// Bytes of a block of `order`.
#[must_use]
pub fn order_bytes(order: u32) -> u64 {
    PAGE_BYTES << order
}

/// The alignment of a cache: with `hwcache` a cache line, halved while the object fits into half, and
/// at least `asked` and a pointer. `calculate_alignment` of mm/slab_common.c \[6.1, 6.12\].
#[must_use]
pub fn cache_align(object_bytes: u32, hwcache: bool, asked: u32) -> u32 {
    let mut align = asked.max(8);
    if hwcache {
        let mut line = CACHE_LINE_BYTES;
        while object_bytes <= line / 2 && line > 1 {
            line /= 2;
        }
        align = align.max(line);
    }
    align_up(align, 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_hold_what_they_are_asked_for() {
        let orders = [0, 1, 4096, 4097, 8192, 8193, 3 * 4096, 1 << 22].map(get_order);
        assert_eq!(orders, [0, 0, 0, 1, 1, 2, 2, 10]);
    }

    #[test]
    fn fls_counts_from_one() {
        assert_eq!([0, 1, 2, 3, 4, 64].map(fls), [0, 1, 2, 2, 3, 7]);
    }

    #[test]
    fn small_objects_share_a_cache_line() {
        let aligns = [8, 16, 17, 32, 33, 64, 5000].map(|bytes| cache_align(bytes, true, 0));
        assert_eq!(aligns, [8, 16, 32, 32, 64, 64, 64]);
        assert_eq!(cache_align(192, false, 0), 8);
        assert_eq!(cache_align(256, false, 256), 256);
    }
}
