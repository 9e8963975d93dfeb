use super::*;
use crate::slub::{Config, Slub};

fn flags() -> GfpFlags {
    GfpFlags::ACCOUNT
}

/// A child of a child of the root.
fn hierarchy(limit_pages: u64) -> (Groups, GroupId, GroupId) {
    let mut groups = Groups::new(2);
    let parent = groups.add(Groups::ROOT, limit_pages);
    let child = groups.add(parent, u64::MAX);
    (groups, parent, child)
}

/// The slot of a cache of 64 bytes and its pointer.
const OBJ: u64 = 64 + OBJ_REF_BYTES;

#[test]
fn one_task_and_a_cache_of_64_bytes() {
    let (mut groups, parent, child) = hierarchy(u64::MAX);
    groups.charge(0, child, OBJ, flags()).unwrap();
    for level in [child, parent, Groups::ROOT] {
        assert_eq!(groups.get(level).charged_pages, 64);
    }
    assert_eq!(groups.get(child).kmem_pages, 1);
    assert_eq!((groups.stock(0).pages, groups.stock(0).bytes), (63, 4024));
    for _ in 2..=56 {
        groups.charge(0, child, OBJ, flags()).unwrap();
    }
    assert_eq!((groups.stock(0).pages, groups.stock(0).bytes), (63, 64));
    groups.charge(0, child, OBJ, flags()).unwrap();
    assert_eq!((groups.stock(0).pages, groups.stock(0).bytes), (62, 4088));
    assert_eq!(
        (
            groups.get(child).charged_pages,
            groups.get(child).kmem_pages
        ),
        (64, 2)
    );
}

#[test]
fn another_group_on_the_same_cpu_drains_everything() {
    // After the first object 63 pages are in the stock, after the 57th there are 62.
    for (objs, pages_left, spare) in [(1, 1, 4024), (57, 2, 4088)] {
        let (mut groups, parent, child) = hierarchy(u64::MAX);
        let other = groups.add(parent, u64::MAX);
        for _ in 0..objs {
            groups.charge(0, child, OBJ, flags()).unwrap();
        }
        groups.charge(0, other, OBJ, flags()).unwrap();
        assert_eq!(
            (
                groups.get(child).charged_pages,
                groups.get(child).kmem_pages
            ),
            (pages_left, pages_left)
        );
        assert_eq!(groups.get(child).spare_bytes, spare);
        assert_eq!(groups.get(parent).charged_pages, pages_left + 64);
        // Back again, the group finds its own.
        groups.charge(0, child, OBJ, flags()).unwrap();
        assert_eq!(groups.get(child).spare_bytes, 0);
    }
}

#[test]
fn whole_pages_go_back_with_the_frees() {
    let (mut groups, _, child) = hierarchy(u64::MAX);
    for _ in 0..57 {
        groups.charge(0, child, OBJ, flags()).unwrap();
    }
    groups.uncharge(0, child, OBJ);
    // 4,088 + 72 bytes are a page and 64 bytes.
    assert_eq!((groups.stock(0).bytes, groups.stock(0).pages), (64, 63));
    assert_eq!(groups.get(child).kmem_pages, 1);
    for _ in 0..56 {
        groups.uncharge(0, child, OBJ);
    }
    groups.drain();
    for level in [child, Groups::ROOT] {
        assert_eq!(
            (
                groups.get(level).charged_pages,
                groups.get(level).kmem_pages
            ),
            (0, 0)
        );
    }
}

#[test]
fn a_limit_first_costs_the_batch_and_then_the_charge() {
    let (mut groups, parent, child) = hierarchy(3);
    for charged in 1..=3 {
        groups.charge_pages(0, child, 1, flags()).unwrap();
        assert_eq!(groups.get(parent).charged_pages, charged);
    }
    assert_eq!(
        groups.charge_pages(0, child, 1, flags()),
        Err(OverLimit { group: parent })
    );
    // Three batches, then the batch and the page.
    assert_eq!(
        (groups.get(parent).failures, groups.get(child).failures),
        (5, 0)
    );
    assert_eq!(groups.get(child).charged_pages, 3);
    groups.charge_pages(0, child, 1, GfpFlags::NOFAIL).unwrap();
    assert_eq!(
        (
            groups.get(parent).charged_pages,
            groups.get(parent).peak_pages
        ),
        (4, 4)
    );
}

#[test]
fn a_stock_above_the_batch_goes_whole() {
    let (mut groups, _, child) = hierarchy(u64::MAX);
    groups.charge_pages(0, child, 100, flags()).unwrap();
    groups.uncharge_pages(0, child, 40);
    assert_eq!(
        (groups.stock(0).pages, groups.get(child).charged_pages),
        (40, 100)
    );
    groups.uncharge_pages(0, child, 60);
    assert_eq!(
        (groups.stock(0).pages, groups.get(child).charged_pages),
        (0, 0)
    );
}

#[test]
fn random_charges_keep_the_books() {
    let (mut groups, parent, child) = hierarchy(u64::MAX);
    let other = groups.add(parent, u64::MAX);
    let mut live: Vec<(GroupId, u64)> = Vec::new();
    let mut seed = 7_u64;
    for _ in 0..50_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let dice = seed >> 33;
        let cpu = (dice & 1) as u16;
        let group = if dice & 2 == 0 { child } else { other };
        if dice & 4 == 0 || live.is_empty() {
            let bytes = 8 + (dice >> 3) % 9000;
            groups.charge(cpu, group, bytes, flags()).unwrap();
            live.push((group, bytes));
        } else {
            let (group, bytes) = live.swap_remove((dice >> 3) as usize % live.len());
            groups.uncharge(cpu, group, bytes);
        }
        for group in [child, other] {
            // Pages for objects are the objects' bytes, with what lies in stocks and beside.
            let objs: u64 = live
                .iter()
                .filter(|(of, _)| *of == group)
                .map(|(_, bytes)| bytes)
                .sum();
            let stocks: u64 = (0..2)
                .map(|cpu| groups.stock(cpu))
                .filter(|stock| stock.bytes_of == Some(group))
                .map(|stock| stock.bytes)
                .sum();
            let of = groups.get(group);
            assert_eq!(of.kmem_pages * PAGE_BYTES, objs + stocks + of.spare_bytes);
        }
        let sum = groups.get(child).charged_pages + groups.get(other).charged_pages;
        assert_eq!(groups.get(parent).charged_pages, sum);
    }
}

#[test]
fn a_model_pays_for_its_accounted_objects() {
    let (groups, parent, child) = hierarchy(4);
    let mut charged = Charged::new(Slub::new(Config::slub(1)), groups, child);
    let mut pages = PageAllocator::unlimited();
    let accounted = Call {
        flags: GfpFlags::ACCOUNT,
        ..Call::default()
    };
    let free_of_charge = charged.kmalloc(&mut pages, 64, Call::default()).unwrap();
    assert_eq!(charged.groups().get(parent).charged_pages, 0);
    // 227 objects of 72 bytes fit into four pages.
    let mut objs = Vec::new();
    while let Ok(obj) = charged.kmalloc(&mut pages, 64, accounted) {
        objs.push(obj);
    }
    assert_eq!((objs.len(), charged.refused()), (227, 1));
    assert_eq!(charged.usage().slab_objs, 228);
    assert_eq!(charged.obj_bytes(&pages, free_of_charge), 64);
    for obj in objs {
        charged.free(&mut pages, obj, 0);
    }
    assert_eq!(charged.usage().slab_objs, 1);
    charged.groups.drain();
    assert_eq!(charged.groups().get(Groups::ROOT).charged_pages, 0);
}

#[test]
fn a_large_object_is_charged_in_pages() {
    let (groups, _, child) = hierarchy(u64::MAX);
    let mut charged = Charged::new(Slub::new(Config::slub(1)), groups, child);
    let mut pages = PageAllocator::unlimited();
    let accounted = Call {
        flags: GfpFlags::ACCOUNT,
        ..Call::default()
    };
    let obj = charged.kmalloc(&mut pages, 9000, accounted).unwrap();
    assert_eq!(charged.groups().get(child).kmem_pages, 4);
    assert_eq!(charged.groups().stock(0).pages, 60);
    charged.free(&mut pages, obj, 0);
    assert_eq!(
        (
            charged.groups().get(child).kmem_pages,
            charged.groups().stock(0).pages
        ),
        (0, 64)
    );
}
