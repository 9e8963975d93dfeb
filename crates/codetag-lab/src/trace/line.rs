//! What one line of either format means, before strings are interned.

use crate::event::{GfpFlags, Pages};

/// What a line means. Strings are those of the line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning<'a> {
    Event(RawEvent<'a>),
    /// The kernel, or the tool that wrote the file, lost so many events here.
    Lost(u64),
    /// An event of another kind, or an allocation that failed.
    Other,
    /// A comment, a header, an empty line.
    Skipped,
    /// What is wrong, without a full stop; follows "line 7: ".
    Malformed(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawEvent<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    /// Events that are missing before this one.
    pub(crate) lost_before: u64,
    pub(crate) kind: RawKind<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawKind<'a> {
    Alloc(RawAlloc<'a>),
    Free {
        ptr: u64,
        cache: Option<&'a [u8]>,
        by_rcu: bool,
    },
    NullFree,
    PageAlloc(Pages),
    PageFree(Pages),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawAlloc<'a> {
    pub(crate) ptr: u64,
    /// `kmem_cache_alloc`, else `kmalloc`.
    pub(crate) from_cache: bool,
    pub(crate) cache: Option<&'a [u8]>,
    pub(crate) bytes_req: u64,
    pub(crate) bytes_alloc: u64,
    /// Empty if unknown.
    pub(crate) call_site: &'a [u8],
    pub(crate) flags: GfpFlags,
}

/// The largest object that is believed, in bytes. Larger sizes are damage, and sums of them would not fit.
const OBJ_BYTES_MAX: u64 = 1 << 40;

/// The largest block, as a power of two of pages: twice that of any architecture's page allocator.
const ORDER_MAX: u8 = 20;

/// The number of a CPU; no kernel has more than 8,192 (`NR_CPUS`).
pub(crate) fn cpu(text: &[u8]) -> Option<u16> {
    let number = decimal(text).filter(|&number| number < 8192)?;
    u16::try_from(number).ok()
}

/// A decimal size in bytes.
pub(crate) fn size(text: &[u8]) -> Option<u64> {
    decimal(text).filter(|&bytes| bytes <= OBJ_BYTES_MAX)
}

/// A block of pages that lies in the address space.
pub(crate) fn block(pfn: u64, order: u64) -> Result<Pages, &'static str> {
    let order = u8::try_from(order).ok().filter(|&order| order <= ORDER_MAX);
    let order = order.ok_or("an order that no kernel has")?;
    // 64 bits of address less the 12 of a page.
    if pfn >> (52 - u32::from(ORDER_MAX)) != 0 {
        return Err("a pfn past the end of memory");
    }
    Ok(Pages { pfn, order })
}

/// Digits only; `None` if there are none, or the number does not fit.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Hexadecimal digits of either case, at most 16.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0, |number, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

/// `SECONDS.FRACTION` in nanoseconds. Without a point it is a clock that counts something else (`trace_clock=counter`),
/// taken as it is.
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    let Some(point) = memchr::memchr(b'.', text) else {
        return decimal(text);
    };
    let (whole, fraction) = (decimal(&text[..point])?, &text[point + 1..]);
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    whole
        .checked_mul(1_000_000_000)?
        .checked_add(decimal(fraction)? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(
            hexadecimal(b"ffff88800323a000"),
            Some(0xffff_8880_0323_a000)
        );
        assert_eq!(hexadecimal(b"1ffff88800323a000"), None);
        for text in [&b""[..], b"-1", b"+1", b"1 ", b"0x1", b"\xff"] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
    }

    #[test]
    fn times_are_in_nanoseconds() {
        assert_eq!(seconds(b"0.796028"), Some(796_028_000));
        assert_eq!(seconds(b"312444.111637"), Some(312_444_111_637_000));
        assert_eq!(seconds(b"1.000000001"), Some(1_000_000_001));
        assert_eq!(seconds(b"4711"), Some(4711));
        assert_eq!(seconds(b"1.0000000001"), None);
        assert_eq!(seconds(b"."), None);
        assert_eq!(seconds(b"18446744074.0"), None);
    }
}
