//! Byte counts as the kernel's `string_get_size(STRING_UNITS_2)` prints them (lib/string_helpers.c,
//! Linux 6.12): three significant digits, `B KiB MiB GiB TiB PiB EiB`.

use core::fmt;

/// Prints a number of bytes with a binary unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub u64);

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The same for a number that may be negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedSize(pub i64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, "", f)
    }
}

impl fmt::Display for SignedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0.unsigned_abs(), if self.0 < 0 { "-" } else { "" }, f)
    }
}

fn print(bytes: u64, sign: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut whole, mut rest, mut unit) = (bytes, 0, 0);
    while whole >= 1024 {
        rest = whole % 1024;
        whole /= 1024;
        unit += 1;
    }
    let digits = match whole {
        _ if unit == 0 => 0,
        0..=9 => 2,
        10..=99 => 1,
        _ => 0,
    };
    // Thousandths, rounded to the digits shown.
    let mut thousandths = rest * 1000 / 1024 + [500, 50, 5][digits];
    if unit > 0 && thousandths >= 1000 {
        thousandths -= 1000;
        whole += 1;
    }
    let unit = UNITS[unit];
    let mut text = Buffer {
        bytes: [0; 16],
        len: 0,
    };
    match digits {
        0 => fmt::write(&mut text, format_args!("{sign}{whole} {unit}")),
        1 => fmt::write(
            &mut text,
            format_args!("{sign}{whole}.{} {unit}", thousandths / 100),
        ),
        _ => fmt::write(
            &mut text,
            format_args!("{sign}{whole}.{:02} {unit}", thousandths / 10),
        ),
    }?;
    // Honours width and alignment, which `write!` alone would not.
    f.pad(text.text())
}

/// A few bytes of text that live on the stack: a report does not allocate.
struct Buffer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Buffer<N> {
    fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl<const N: usize> fmt::Write for Buffer<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_the_kernel_does() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10 * 1024, "10.0 KiB"),
            (12 * 1024 + 307, "12.3 KiB"),
            (123 * 1024, "123 KiB"),
            (1023 * 1024 + 1023, "1024 KiB"),
            (1 << 20, "1.00 MiB"),
            ((1 << 20) - 1, "1024 KiB"),
            (1 << 30, "1.00 GiB"),
            (10_234_880, "9.76 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>12}|", Size(1 << 20)), "    1.00 MiB|");
        assert_eq!(format!("{:>12}|", SignedSize(-65536)), "   -64.0 KiB|");
        assert_eq!(SignedSize(i64::MIN).to_string(), "-8.00 EiB");
    }
}
