//! A cache under hackbench: messages allocated on one CPU and freed on another.
//!
//! The shape of hackbench in process mode: groups of 20 senders and 20 receivers, every sender writes to every
//! receiver of its group over one socket per receiver, which holds a bounded number of messages. CPUs run
//! tasks in turn, each for a random number of messages; a task stays on its CPU but for some wake-ups. Which task
//! runs where is made up (seeded), so figures are of the kernel's kind, not its very figures; bounds are exact.

use crate::model::{CacheFlags, CacheId, CacheSpec, CacheUsage, Call, Model, Obj};
use crate::page::{OutOfPages, PageAllocator};
use crate::random::SplitMix64;
use crate::slub::{Config, CpuPartial, Path, Slub};
use std::collections::VecDeque;

/// Senders, and receivers, of a group.
const PEERS: usize = 20;

/// Messages of 100 bytes that a socket holds: the default send buffer of 212,992 bytes over the 768 that an skb
/// and its data are charged.
const SOCKET_MESSAGES: usize = 277;

/// Messages that a task sends or receives in one turn at most.
const TURN_MESSAGES: u64 = 32;

/// One turn in so many a task moves to another CPU.
const MIGRATION_TURNS: u64 = 8;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HackbenchParams {
    /// Groups of 40 tasks.
    pub groups: usize,
    /// Messages from each sender to each receiver of its group.
    pub loops: usize,
    /// Runs, one after the other.
    pub runs: usize,
    /// CPUs.
    pub cpus: u16,
    /// CPU partial lists.
    pub cpu_partial: CpuPartial,
    /// Bytes of the object of a message; 100 bytes and what the kernel adds come to 512.
    pub object_bytes: u32,
    /// Objects of the cache that live all the time; 102 of `kmalloc-512` in the kernels that were run.
    pub resident_objs: usize,
    /// Where the pseudo-random numbers start.
    pub seed: u64,
}

impl Default for HackbenchParams {
    fn default() -> Self {
        Self {
            groups: 10,
            loops: 100,
            runs: 3,
            cpus: 2,
            cpu_partial: CpuPartial::Slabs,
            object_bytes: 512,
            resident_objs: 102,
            seed: 1,
        }
    }
}

/// The cache at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// `before`, `after run 1` and so on, `after shrink`.
    pub when: String,
    /// Its columns of slabinfo and more.
    pub usage: CacheUsage,
    /// Slabs on each CPU's partial list.
    pub cpu_partial: Vec<u32>,
    /// The most slots during the run that ended here.
    pub peak_slots: u64,
    /// The most slabs on any CPU's partial list during that run.
    pub peak_cpu_partial: u32,
}

/// Runs hackbench on an unlimited arena. `progress` is told how many messages were received, of how many.
///
/// # Errors
///
/// Only if the arena cannot grow any more, at 16 TiB.
pub fn hackbench(
    params: HackbenchParams,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<Stage>, OutOfPages> {
    let mut machine = Machine::new(params);
    // Whole slabs of them on the boot CPU, the rest on the last one.
    let objs_per_slab = machine.slub.usage_of(machine.cache).objs_per_slab as usize;
    for index in 0..params.resident_objs {
        let is_rest = index >= params.resident_objs / objs_per_slab * objs_per_slab;
        machine.alloc(if is_rest { params.cpus.max(1) - 1 } else { 0 })?;
    }
    let mut stages = vec![machine.stage("before".into())];
    let per_run = (params.groups * PEERS * PEERS * params.loops) as u64;
    let total = per_run * params.runs as u64;
    for run in 1..=params.runs {
        let done = per_run * (run as u64 - 1);
        machine.run(params, |received| progress(done + received, total))?;
        stages.push(machine.stage(format!("after run {run}")));
    }
    let Machine {
        slub, pages, cache, ..
    } = &mut machine;
    slub.shrink_cache(pages, *cache);
    stages.push(machine.stage("after shrink".into()));
    Ok(stages)
}

/// The worst for CPU partial lists: one CPU fills `slabs` slabs, another frees all objects of each, slab by slab.
/// The stages before and after the frees, and after shrink.
///
/// # Errors
///
/// Only if the arena cannot grow any more.
pub fn adversary(params: HackbenchParams, slabs: usize) -> Result<Vec<Stage>, OutOfPages> {
    let mut machine = Machine::new(params);
    let objs_per_slab = machine.slub.usage_of(machine.cache).objs_per_slab as usize;
    let objs: Vec<Obj> = (0..slabs * objs_per_slab)
        .map(|_| machine.alloc(0))
        .collect::<Result<_, _>>()?;
    let mut stages = vec![machine.stage("before".into())];
    for obj in objs {
        machine.free(obj, params.cpus.max(1) - 1);
    }
    stages.push(machine.stage("after the frees".into()));
    let Machine {
        slub, pages, cache, ..
    } = &mut machine;
    slub.shrink_cache(pages, *cache);
    stages.push(machine.stage("after shrink".into()));
    Ok(stages)
}

/// The allocator and what was seen of it.
struct Machine {
    slub: Slub,
    pages: PageAllocator,
    cache: CacheId,
    random: SplitMix64,
    peak_slots: u64,
    peak_cpu_partial: u32,
}

/// A sender or receiver that has messages left.
struct Task {
    group: usize,
    number: usize,
    is_sender: bool,
    /// Messages still to be sent to each receiver, or to be received in all.
    left: Vec<usize>,
}

impl Machine {
    fn new(params: HackbenchParams) -> Self {
        let config = Config {
            path: Path::CpuSlab(params.cpu_partial),
            ..Config::slub(params.cpus)
        };
        let mut slub = Slub::new(config);
        let cache = slub.create_cache(&CacheSpec {
            name: format!("kmalloc-{}", params.object_bytes),
            object_bytes: params.object_bytes,
            align: 8,
            slot_bytes: None,
            flags: CacheFlags::default(),
        });
        Self {
            slub,
            pages: PageAllocator::unlimited(),
            cache,
            random: SplitMix64::new(params.seed),
            peak_slots: 0,
            peak_cpu_partial: 0,
        }
    }

    fn alloc(&mut self, cpu: u16) -> Result<Obj, OutOfPages> {
        let call = Call {
            cpu,
            ..Call::default()
        };
        let obj = self.slub.cache_alloc(&mut self.pages, self.cache, call)?;
        self.note();
        Ok(obj)
    }

    fn free(&mut self, obj: Obj, cpu: u16) {
        self.slub.free(&mut self.pages, obj, cpu);
        self.note();
    }

    fn note(&mut self) {
        let most = self.slub.cpu_partial(self.cache).max().unwrap_or(0);
        self.peak_cpu_partial = self.peak_cpu_partial.max(most);
        self.peak_slots = self.peak_slots.max(self.slub.slots_of(self.cache));
    }

    fn stage(&mut self, when: String) -> Stage {
        Stage {
            when,
            usage: self.slub.usage_of(self.cache),
            cpu_partial: self.slub.cpu_partial(self.cache).collect(),
            peak_slots: std::mem::take(&mut self.peak_slots),
            peak_cpu_partial: std::mem::take(&mut self.peak_cpu_partial),
        }
    }

    fn run(
        &mut self,
        params: HackbenchParams,
        mut progress: impl FnMut(u64),
    ) -> Result<(), OutOfPages> {
        let cpus = u64::from(params.cpus.max(1));
        let mut sockets = vec![VecDeque::new(); params.groups * PEERS];
        let mut queues: Vec<VecDeque<Task>> = (0..cpus).map(|_| VecDeque::new()).collect();
        for group in 0..params.groups {
            for number in 0..PEERS {
                for is_sender in [false, true] {
                    let left = if is_sender {
                        vec![params.loops; PEERS]
                    } else {
                        vec![params.loops * PEERS]
                    };
                    let cpu = self.random.below(cpus) as usize;
                    queues[cpu].push_back(Task {
                        group,
                        number,
                        is_sender,
                        left,
                    });
                }
            }
        }
        let mut received = 0;
        while queues.iter().any(|queue| !queue.is_empty()) {
            for cpu in 0..cpus as usize {
                let Some(mut task) = queues[cpu].pop_front() else {
                    continue;
                };
                let turn = 1 + self.random.below(TURN_MESSAGES);
                if task.is_sender {
                    self.send(&mut task, &mut sockets, turn, cpu as u16)?;
                } else {
                    received += self.receive(&mut task, &mut sockets, turn, cpu as u16);
                }
                if task.left.iter().any(|&left| left > 0) {
                    let next = if self.random.below(MIGRATION_TURNS) == 0 {
                        self.random.below(cpus) as usize
                    } else {
                        cpu
                    };
                    queues[next].push_back(task);
                }
            }
            progress(received);
        }
        Ok(())
    }

    /// One message to each receiver in turn, as long as sockets have room.
    fn send(
        &mut self,
        task: &mut Task,
        sockets: &mut [VecDeque<Obj>],
        turn: u64,
        cpu: u16,
    ) -> Result<(), OutOfPages> {
        for _ in 0..turn {
            // Senders write round by round: the receiver that got the fewest so far.
            let Some(receiver) =
                (0..PEERS).max_by_key(|&receiver| (task.left[receiver], PEERS - receiver))
            else {
                break;
            };
            let socket = task.group * PEERS + receiver;
            if task.left[receiver] == 0 || sockets[socket].len() >= SOCKET_MESSAGES {
                break;
            }
            let obj = self.alloc(cpu)?;
            sockets[socket].push_back(obj);
            task.left[receiver] -= 1;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        task: &mut Task,
        sockets: &mut [VecDeque<Obj>],
        turn: u64,
        cpu: u16,
    ) -> u64 {
        let socket = &mut sockets[task.group * PEERS + task.number];
        let count = (turn as usize).min(socket.len());
        let messages: Vec<Obj> = socket.drain(..count).collect();
        task.left[0] -= count;
        for obj in messages {
            self.free(obj, cpu);
        }
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slub::{cpu_partial_estimate_objs, cpu_partial_slabs};

    fn params(cpu_partial: CpuPartial) -> HackbenchParams {
        HackbenchParams {
            groups: 2,
            loops: 20,
            cpu_partial,
            ..HackbenchParams::default()
        }
    }

    /// The most that each form may hold: kmalloc-512 on two CPUs has 16 objects to a slab.
    fn bound(cpu_partial: CpuPartial) -> u32 {
        match cpu_partial {
            CpuPartial::Off => 0,
            CpuPartial::Slabs => cpu_partial_slabs(512, 16),
            CpuPartial::Estimate => cpu_partial_estimate_objs(512) + 1,
        }
    }

    const FORMS: [CpuPartial; 3] = [CpuPartial::Off, CpuPartial::Slabs, CpuPartial::Estimate];

    #[test]
    fn every_form_stays_within_its_bound_and_shrinks_back() {
        assert_eq!(FORMS.map(bound), [0, 7, 14]);
        for form in FORMS {
            let stages = hackbench(params(form), |_, _| {}).unwrap();
            assert_eq!(stages.len(), 5);
            let before = &stages[0];
            assert_eq!(
                (
                    before.usage.live_objs,
                    before.usage.slots,
                    before.usage.slabs
                ),
                (102, 112, 7),
                "{form:?}"
            );
            for stage in &stages[1..] {
                assert!(stage.peak_cpu_partial <= bound(form), "{form:?}: {stage:?}");
                assert_eq!(stage.usage.live_objs, 102);
            }
            // The runs did something, and each left more behind than there was before.
            assert!(stages[1].peak_slots > 1000);
            assert!(
                stages[1..4]
                    .iter()
                    .all(|stage| stage.usage.slabs > before.usage.slabs),
                "{form:?}"
            );
            let after = stages.last().unwrap();
            assert_eq!(after.usage.cpu_partial_slabs, 0);
            assert!(
                after.usage.slabs <= before.usage.slabs,
                "{form:?}: {after:?}"
            );
        }
    }

    #[test]
    fn an_adversary_reaches_each_bound() {
        for form in FORMS {
            let stages = adversary(params(form), 200).unwrap();
            let [before, after, shrunk] = &stages[..] else {
                panic!("three stages")
            };
            assert_eq!(before.usage.slabs, 200);
            assert_eq!(after.peak_cpu_partial, bound(form), "{form:?}");
            assert!(after.cpu_partial.iter().all(|&slabs| slabs <= bound(form)));
            assert_eq!(
                (after.usage.live_objs, shrunk.usage.slabs),
                (0, 0),
                "{form:?}"
            );
        }
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let run = |seed| {
            let params = HackbenchParams {
                seed,
                ..params(CpuPartial::Slabs)
            };
            hackbench(params, |_, _| {}).unwrap()
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
