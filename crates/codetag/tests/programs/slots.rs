//! Which slot serves a request: the class rule, stated a second time.
//!
//! Slot sizes are measured by the distance of neighbours, not asked of the allocator: the size that
//! is one byte more than a slot belongs to the next class.

use crate::watch::{SMALL_MAX, is_small};
use std::alloc::{Layout, alloc, dealloc};
use std::sync::OnceLock;

const ROOM: usize = 128;

/// Slot sizes in rising order.
pub(crate) struct Slots {
    sizes: [usize; ROOM],
    len: usize,
}

static SLOTS: OnceLock<Slots> = OnceLock::new();

/// The slot sizes; measured at the first call.
pub(crate) fn slots() -> &'static Slots {
    SLOTS.get_or_init(measure)
}

fn measure() -> Slots {
    let mut sizes = [0; ROOM];
    let (mut bytes, mut n) = (1, 0);
    while bytes <= SMALL_MAX {
        sizes[n] = distance_of_neighbours(bytes);
        assert!(sizes[n] >= bytes, "{bytes} bytes lie {} apart", sizes[n]);
        bytes = sizes[n] + 1;
        n += 1;
    }
    Slots { sizes, len: n }
}

/// The smallest distance between any two of many blocks of one size.
fn distance_of_neighbours(bytes: usize) -> usize {
    let mut found = [0_usize; 64];
    let found = if bytes <= 1024 {
        &mut found[..]
    } else {
        &mut found[..8]
    };
    let layout = Layout::from_size_align(bytes, 1).unwrap();
    for at in &mut *found {
        // SAFETY: the layout is not of zero size.
        *at = unsafe { alloc(layout) }.expose_provenance();
    }
    for &at in &*found {
        // SAFETY: allocated above, with this layout.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(at), layout) };
    }
    found.sort_unstable();
    found.windows(2).map(|w| w[1] - w[0]).min().unwrap()
}

/// The smallest multiple of `unit` that is at least `bytes`.
const fn up(bytes: usize, unit: usize) -> usize {
    bytes.next_multiple_of(unit)
}

impl Slots {
    /// All of them.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes[..self.len]
    }

    /// The index of a slot size.
    pub(crate) fn index(&self, slot_bytes: usize) -> Option<usize> {
        self.sizes().binary_search(&slot_bytes).ok()
    }

    /// Index and size of the slot that serves a request; none for a large object.
    pub(crate) fn serving(&self, bytes: usize, align: usize) -> Option<(usize, usize)> {
        if !is_small(bytes, align) {
            return None;
        }
        let first = self
            .sizes()
            .partition_point(|&slot| slot < up(bytes, align));
        let behind = self.sizes().iter().copied().enumerate().skip(first);
        behind.into_iter().find(|(_, slot)| slot % align == 0)
    }

    /// What the documentation says of the spacing.
    pub(crate) fn assert_documented_spacing(&self) {
        assert_eq!(self.sizes().last(), Some(&SMALL_MAX));
        for bytes in 1..=SMALL_MAX {
            let (_, slot) = self.serving(bytes, 1).unwrap();
            if bytes <= 128 {
                assert_eq!(slot, up(bytes, 8), "steps of 8 up to 128");
            } else {
                // A step is an eighth of the power of two below.
                let step = (1 << (bytes - 1).ilog2()) / 8;
                assert!(bytes > 1024 || slot == up(bytes, step), "{bytes} in {slot}");
                assert!(
                    (slot - bytes) * 8 <= slot,
                    "{bytes} bytes in {slot} lose over 12.5 %"
                );
                assert_eq!(slot % 16, 0);
            }
        }
        for shift in 3..=14 {
            assert!(
                self.index(1 << shift).is_some(),
                "no slot of {} bytes",
                1 << shift
            );
        }
    }
}
