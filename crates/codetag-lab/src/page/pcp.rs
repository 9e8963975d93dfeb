//! Page lists of each CPU, orders 0 to 3 \[6.1\].

use super::buddy::Buddy;
use crate::kernel::{COSTLY_ORDER, PAGE_SHIFT};
use std::collections::VecDeque;

const LISTS: usize = COSTLY_ORDER as usize + 1;

/// How much a CPU's lists take at a time and hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcpLimits {
    /// Pages moved at a time.
    pub batch: u32,
    /// Pages at which a free gives some back.
    pub high: u32,
}

impl PcpLimits {
    /// Those of a zone of `managed_pages` on a machine of `cpus` CPUs: `zone_batchsize` and `zone_highsize`
    /// of mm/page_alloc.c \[6.1\], with the low watermark from the default of `min_free_kbytes`. The kernel
    /// takes that default from what is free early in the boot, so its `high` is somewhat lower.
    #[must_use]
    pub fn of_zone(managed_pages: u32, cpus: u16) -> Self {
        let mib_pages = 1 << (20 - PAGE_SHIFT);
        let quarter = ((managed_pages >> 10).min(mib_pages) / 4).max(1);
        // Down to a power of two, less one, which strides over cache colours.
        let batch = (1 << (quarter + quarter / 2).ilog2()) - 1;
        let managed_kb = u64::from(managed_pages) << (PAGE_SHIFT - 10);
        let min_free_kb = (managed_kb * 16).isqrt().clamp(128, 262_144);
        let min_pages = (min_free_kb >> (PAGE_SHIFT - 10)) as u32;
        let low_pages = min_pages + (min_pages / 4).max(managed_pages / 1000);
        Self {
            batch: batch.max(1),
            high: (low_pages / u32::from(cpus.max(1))).max(batch.max(1) * 4),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct CpuLists {
    /// Front: most lately freed.
    by_order: [VecDeque<u32>; LISTS],
    pages: u32,
    /// Doubles what a free gives back with each time in a row that it has to.
    free_factor: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Pcp {
    cpus: Vec<CpuLists>,
    limits: PcpLimits,
}

impl Pcp {
    pub(super) fn new(cpus: u16, limits: PcpLimits) -> Self {
        Self {
            cpus: vec![CpuLists::default(); usize::from(cpus.max(1))],
            limits,
        }
    }

    pub(super) fn pages(&self) -> u64 {
        self.cpus.iter().map(|cpu| u64::from(cpu.pages)).sum()
    }

    fn cpu(&mut self, cpu: u16) -> &mut CpuLists {
        let index = usize::from(cpu) % self.cpus.len();
        &mut self.cpus[index]
    }

    pub(super) fn alloc(&mut self, buddy: &mut Buddy, cpu: u16, order: u32) -> Option<u32> {
        if order > COSTLY_ORDER {
            return buddy
                .alloc(order)
                .or_else(|| self.drain_and_alloc(buddy, order));
        }
        let batch = match self.limits.batch {
            1 => 1,
            batch => (batch >> order).max(2),
        };
        let lists = self.cpu(cpu);
        let list = &mut lists.by_order[order as usize];
        if list.is_empty() {
            lists.free_factor >>= 1;
            for _ in 0..batch {
                let Some(pfn) = buddy.alloc(order) else { break };
                list.push_back(pfn);
                lists.pages += 1 << order;
            }
        }
        match list.pop_front() {
            Some(pfn) => {
                lists.pages -= 1 << order;
                Some(pfn)
            }
            None => self.drain_and_alloc(buddy, order),
        }
    }

    pub(super) fn free(&mut self, buddy: &mut Buddy, cpu: u16, pfn: u32, order: u32) {
        if order > COSTLY_ORDER {
            buddy.free(pfn);
            return;
        }
        let PcpLimits { batch, high } = self.limits;
        let lists = self.cpu(cpu);
        lists.by_order[order as usize].push_front(pfn);
        lists.pages += 1 << order;
        let all = lists.free_factor > 0 && order > 0;
        if all {
            let pages = lists.pages;
            lists.give_back(buddy, pages);
        } else if lists.pages >= high {
            let most = high.saturating_sub(batch).max(batch);
            let wanted = batch << lists.free_factor;
            if wanted < most {
                lists.free_factor += 1;
            }
            lists.give_back(buddy, wanted.clamp(batch, most));
        }
    }

    /// What the kernel does before it gives up: `drain_all_pages`.
    fn drain_and_alloc(&mut self, buddy: &mut Buddy, order: u32) -> Option<u32> {
        for lists in &mut self.cpus {
            let pages = lists.pages;
            lists.give_back(buddy, pages);
        }
        buddy.alloc(order)
    }
}

impl CpuLists {
    /// The oldest of each list in turn, until `pages` are given back.
    fn give_back(&mut self, buddy: &mut Buddy, pages: u32) {
        let mut left = i64::from(pages.min(self.pages));
        for order in (0..LISTS).cycle() {
            if left <= 0 {
                break;
            }
            if let Some(pfn) = self.by_order[order].pop_back() {
                buddy.free(pfn);
                self.pages -= 1 << order;
                left -= 1 << order;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageAllocator;

    #[test]
    fn limits_follow_the_zone() {
        // zoneinfo of a 6.1 boot with mem=32M: managed 5913, batch 1, high 163.
        assert_eq!(
            PcpLimits::of_zone(5_913, 1),
            PcpLimits {
                batch: 1,
                high: 191
            }
        );
        assert_eq!(PcpLimits::of_zone(29_325, 1).batch, 7);
        assert_eq!(PcpLimits::of_zone(1 << 20, 1).batch, 63);
        assert_eq!(PcpLimits::of_zone(512, 1), PcpLimits { batch: 1, high: 56 });
    }

    #[test]
    fn a_list_takes_a_batch_and_gives_one_back() {
        let mut pages = PageAllocator::with_arena(64).with_pcp(1, PcpLimits { batch: 4, high: 8 });
        let taken: Vec<_> = (0..9).map(|_| pages.alloc(0, 0).unwrap()).collect();
        assert_eq!((pages.pcp_pages(), pages.free_pages()), (3, 52));
        for pfn in taken {
            pages.free(0, pfn);
        }
        assert_eq!((pages.pcp_pages(), pages.free_pages()), (4, 60));
    }

    #[test]
    fn what_lies_on_lists_is_used_before_an_allocation_fails() {
        let mut pages = PageAllocator::with_arena(16).with_pcp(2, PcpLimits { batch: 8, high: 32 });
        let pfn = pages.alloc(0, 0).unwrap();
        pages.free(0, pfn);
        assert_eq!(pages.pcp_pages(), 8);
        assert!(pages.alloc(1, 4).is_ok());
        assert_eq!(pages.pcp_pages(), 0);
    }
}
