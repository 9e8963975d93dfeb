//! `codetag lab order`: how many pages a slab of SLUB has, and why.

use super::grid;
use crate::output::{Format, Output};
use codetag_lab::kernel::{MAX_ORDER, PAGE_BYTES};
use codetag_lab::slub::{OBJS_MAX, OrderParams, OrderRule, OrderTry, calculate_order};
use serde::Serialize;
use std::io::{self, Write};

/// Show how SLUB chooses the order of a cache's slabs, step by step.
///
/// The order is the power of two of the pages that a slab has. SLUB wants a number of objects that grows
/// with the CPUs, takes the smallest order that holds them, and goes up while too much of the slab is left over.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag lab order --size 704 --cpus 4\n  \
    codetag lab order --size 5888 --cpus 1 --max-order 1 --format json\n\n\
    Exit status: 0 all was done, 2 wrong usage.")]
pub(super) struct Args {
    /// Bytes of a slot: the object with all that debugging adds, aligned
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(8..=1 << 22))]
    size: u32,

    /// CPUs that are present
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    cpus: u32,

    /// The boot parameter `slub_max_order`
    #[arg(long, value_name = "ORDER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_ORDER)))]
    max_order: u32,

    /// The boot parameter `slub_min_order`
    #[arg(long, value_name = "ORDER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_ORDER)))]
    min_order: u32,

    /// The boot parameter `slub_min_objects`; 0 for the number that follows from the CPUs
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_objects: u32,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The result.
#[derive(Debug, Serialize)]
struct Answer {
    size_bytes: u32,
    cpus: u32,
    max_order: u32,
    wanted_objs: u32,
    max_objs: u32,
    min_objs: u32,
    start_order: u32,
    rule: &'static str,
    order: u32,
    pages: u64,
    objs: u32,
    unused_bytes: u64,
}

/// One order that was tried.
#[derive(Debug, Serialize)]
struct Try {
    fraction: String,
    order: u32,
    slab_bytes: u64,
    objs: u64,
    leftover_bytes: u64,
    allowed_bytes: u64,
    fits: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    tries: &'a [Try],
}

impl Try {
    fn new(step: &OrderTry, size_bytes: u32) -> Self {
        let slab_bytes = PAGE_BYTES << step.order;
        Self {
            fraction: format!("1/{}", step.fraction),
            order: step.order,
            slab_bytes,
            objs: slab_bytes / u64::from(size_bytes),
            leftover_bytes: step.leftover_bytes,
            allowed_bytes: step.allowed_bytes,
            fits: step.fits(),
        }
    }
}

impl Args {
    pub(super) fn run(self, out: &mut Output) -> io::Result<()> {
        let params = OrderParams {
            min_objects: self.min_objects,
            min_order: self.min_order,
            ..OrderParams::new(self.cpus).with_max_order(self.max_order)
        };
        let steps = calculate_order(self.size, params);
        let (wanted_objs, min_objs) = steps.wanted_objs;
        let pages = 1_u64 << steps.order;
        let answer = Answer {
            size_bytes: self.size,
            cpus: self.cpus,
            max_order: self.max_order,
            wanted_objs,
            max_objs: steps.max_objs,
            min_objs,
            start_order: steps.start_order,
            rule: match steps.rule {
                OrderRule::Fraction => "fraction",
                OrderRule::TooManyObjects => "too_many_objects",
                OrderRule::OneObject => "one_object",
            },
            order: steps.order,
            pages,
            objs: steps.objs,
            unused_bytes: pages * PAGE_BYTES - u64::from(steps.objs) * u64::from(self.size),
        };
        let tries: Vec<Try> = steps.tries.iter().map(|step| Try::new(step, self.size)).collect();
        match self.format {
            Format::Json => grid::json(
                &Document {
                    answer: &answer,
                    tries: &tries,
                },
                out,
            ),
            Format::Csv => grid::csv(&[answer], out),
            Format::Table => self.tell(&answer, steps.rule, &tries, out),
        }
    }

    fn tell(
        &self,
        answer: &Answer,
        rule: OrderRule,
        tries: &[Try],
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.min_objects == 0 {
            writeln!(
                out,
                "objects wanted: 4 * (fls({}) + 1) = {}",
                self.cpus, answer.wanted_objs
            )?;
        } else {
            writeln!(out, "objects wanted: slub_min_objects = {}", answer.wanted_objs)?;
        }
        writeln!(
            out,
            "the largest slab, of order {}, holds {}: at least {}",
            self.max_order, answer.max_objs, answer.min_objs
        )?;
        writeln!(
            out,
            "they take {} bytes: start at order {}",
            u64::from(answer.min_objs) * u64::from(self.size),
            answer.start_order
        )?;
        if !tries.is_empty() {
            writeln!(out)?;
            grid::table(tries, out)?;
            writeln!(out)?;
        }
        match rule {
            OrderRule::Fraction => writeln!(out, "the first that fits is taken")?,
            OrderRule::OneObject => writeln!(out, "none fits: the smallest that holds one object is taken")?,
            OrderRule::TooManyObjects => {
                writeln!(out, "that holds more than {OBJS_MAX} objects, which a slab cannot count: fewer")?;
            }
        }
        writeln!(
            out,
            "order {}: {} page{}, {} objects of {} bytes, {} bytes unused",
            answer.order,
            answer.pages,
            if answer.pages == 1 { "" } else { "s" },
            answer.objs,
            self.size,
            answer.unused_bytes
        )
    }
}
