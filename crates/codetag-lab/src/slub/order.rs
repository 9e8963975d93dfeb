//! How many pages a slab of SLUB has: `calculate_order` of mm/slub.c.
//!
//! As in 6.12, which tries fractions 16, 8, 4, 2; 6.1 tries 16, 8, 4 and then lower numbers of objects,
//! and comes to the same orders for every size from 8 to 8192 in steps of 8 on 2 to 64 CPUs.

use crate::kernel::{COSTLY_ORDER, MAX_ORDER, fls, get_order, order_bytes};

/// Most objects that a slab can count, `MAX_OBJS_PER_PAGE`.
pub const OBJS_MAX: u32 = 32_767;

/// What the calculation depends on, besides the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderParams {
    /// CPUs that are present; where only one is, the kernel takes those that are possible.
    pub cpus: u32,
    /// `slub_min_objects`; 0 for the number that follows from the CPUs.
    pub min_objects: u32,
    /// `slub_min_order`.
    pub min_order: u32,
    /// `slub_max_order`.
    pub max_order: u32,
}

impl OrderParams {
    /// The defaults on a machine of `cpus` CPUs.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        Self {
            cpus: cpus.max(1),
            min_objects: 0,
            min_order: 0,
            max_order: COSTLY_ORDER,
        }
    }

    /// With another `slub_max_order`.
    #[must_use]
    pub fn with_max_order(self, max_order: u32) -> Self {
        Self {
            max_order: max_order.min(MAX_ORDER),
            ..self
        }
    }
}

/// One order that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTry {
    /// At most a 16th, 8th, 4th or half of the slab may be left over.
    pub fraction: u32,
    /// The order.
    pub order: u32,
    /// Bytes of a slab that no object takes.
    pub leftover_bytes: u64,
    /// The most that may be left over.
    pub allowed_bytes: u64,
}

impl OrderTry {
    /// Whether the order was taken.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.leftover_bytes <= self.allowed_bytes
    }
}

/// Which rule gave the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderRule {
    /// The first one tried that leaves little enough.
    Fraction,
    /// The smallest slab wanted would have more than [`OBJS_MAX`] objects.
    TooManyObjects,
    /// No order up to the maximum leaves little enough: the smallest that holds one object.
    OneObject,
}

/// The calculation with its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSteps {
    /// Objects wanted per slab, before and after the limit that the largest slab sets.
    pub wanted_objs: (u32, u32),
    /// Objects that the largest allowed slab holds, at least 1.
    pub max_objs: u32,
    /// Where the search starts.
    pub start_order: u32,
    /// What was tried, in this order.
    pub tries: Vec<OrderTry>,
    /// What decided.
    pub rule: OrderRule,
    /// The result; [`MAX_ORDER`] is exceeded by objects that no block holds.
    pub order: u32,
    /// Objects per slab of that order.
    pub objs: u32,
}

/// The order of a slab of objects of `size_bytes`, which is the slot with all that debugging adds.
///
/// # Panics
///
/// If `size_bytes` is 0.
#[must_use]
pub fn calculate_order(size_bytes: u32, params: OrderParams) -> OrderSteps {
    let size = u64::from(size_bytes);
    let wanted = match params.min_objects {
        0 => 4 * (fls(params.cpus) + 1),
        set => set,
    };
    let max_objs = u32::try_from(order_bytes(params.max_order) / size)
        .unwrap_or(u32::MAX)
        .max(1);
    let min_objs = wanted.min(max_objs);
    let start_order = params.min_order.max(get_order(u64::from(min_objs) * size));

    let mut tries = Vec::new();
    let (rule, order) = if order_bytes(start_order) / size > u64::from(OBJS_MAX) {
        (
            OrderRule::TooManyObjects,
            get_order(size * u64::from(OBJS_MAX)) - 1,
        )
    } else {
        let all = [16, 8, 4, 2].into_iter().flat_map(|fraction| {
            (start_order..=params.max_order).map(move |order| (fraction, order))
        });
        for (fraction, order) in all {
            tries.push(OrderTry {
                fraction,
                order,
                leftover_bytes: order_bytes(order) % size,
                allowed_bytes: order_bytes(order) / u64::from(fraction),
            });
            if tries.last().is_some_and(OrderTry::fits) {
                break;
            }
        }
        match tries.last().filter(|last| last.fits()) {
            Some(last) => (OrderRule::Fraction, last.order),
            None => (OrderRule::OneObject, get_order(size)),
        }
    };
    OrderSteps {
        wanted_objs: (wanted, min_objs),
        max_objs,
        start_order,
        tries,
        rule,
        order,
        objs: (order_bytes(order) / size) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_and_objs(size: u32, params: OrderParams) -> (u32, u32) {
        let steps = calculate_order(size, params);
        (steps.order, steps.objs)
    }

    #[test]
    fn published_orders() {
        let cpus = [2, 4, 8, 16, 64, 128];
        for (size, expected) in [
            (64, [(0, 64); 6]),
            (192, [(0, 21), (0, 21), (0, 21), (1, 42), (1, 42), (1, 42)]),
            (256, [(0, 16), (0, 16), (1, 32), (1, 32), (1, 32), (2, 64)]),
            (512, [(1, 16), (1, 16), (2, 32), (2, 32), (2, 32), (3, 64)]),
            (1024, [(2, 16), (2, 16), (3, 32), (3, 32), (3, 32), (3, 32)]),
            (2048, [(3, 16); 6]),
            (4096, [(3, 8); 6]),
            (5888, [(3, 5); 6]),
        ] {
            let got = cpus.map(|cpus| order_and_objs(size, OrderParams::new(cpus)));
            assert_eq!(got, expected, "size {size}");
        }
    }

    #[test]
    fn orders_of_slub_tiny() {
        let tiny = OrderParams::new(2).with_max_order(1);
        let got =
            [64, 192, 256, 512, 1024, 2048, 4096, 5888].map(|size| order_and_objs(size, tiny));
        assert_eq!(
            got,
            [
                (0, 64),
                (0, 21),
                (0, 16),
                (1, 16),
                (1, 8),
                (1, 4),
                (1, 2),
                (1, 1)
            ]
        );
    }

    #[test]
    fn the_steps_tell_why() {
        let steps = calculate_order(704, OrderParams::new(2));
        assert_eq!(steps.wanted_objs, (12, 12));
        assert_eq!((steps.max_objs, steps.start_order), (46, 2));
        // 23 objects in 16 KiB leave 192 bytes, 16384 / 16 may be left.
        let only = OrderTry {
            fraction: 16,
            order: 2,
            leftover_bytes: 192,
            allowed_bytes: 1024,
        };
        assert_eq!(steps.tries, [only]);
        assert_eq!(
            (steps.rule, steps.order, steps.objs),
            (OrderRule::Fraction, 2, 23)
        );
    }

    #[test]
    fn an_object_larger_than_the_largest_slab_gets_its_own() {
        let steps = calculate_order(9000, OrderParams::new(2).with_max_order(1));
        assert_eq!(
            (steps.rule, steps.order, steps.objs),
            (OrderRule::OneObject, 2, 1)
        );
    }

    #[test]
    fn a_slab_counts_no_more_than_15_bits() {
        let params = OrderParams {
            min_order: 10,
            max_order: 10,
            ..OrderParams::new(2)
        };
        let steps = calculate_order(8, params);
        assert_eq!((steps.rule, steps.order), (OrderRule::TooManyObjects, 5));
    }
}
