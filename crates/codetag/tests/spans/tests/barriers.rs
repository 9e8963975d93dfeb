//! A tokio program of 200 async fns that are instrumented with `tracing` and have no attribute of ours: at a
//! hundred barriers (a thousand with `CODETAG_LONG=1`) each span owns what the program itself counted, and the page adds up.

#![forbid(unsafe_code)]

use codetag::{Snapshot, TagLayer};
use codetag_span_tests::{enable, live, tags_off};
use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::thread::{self, ThreadId};
use tracing::{info_span, instrument};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

const SPANS: usize = 200;
const SLOTS: usize = 4;
const WORKERS: usize = 4;

/// What a span owns, an object per slot.
type Kept = [Mutex<Option<Box<[u8]>>>; SLOTS];

/// What the spans own, by the program's own account.
struct Shared {
    kept: Vec<Kept>,
    random: AtomicU64,
    /// Per task, the threads it was polled on; as bits, so that noting one allocates nothing.
    polled_on: Vec<AtomicU64>,
}

type Call = fn(Arc<Shared>, usize, u32) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! spans {
    ($($name:ident)*) => {
        $(
            #[instrument(skip_all)]
            async fn $name(shared: Arc<Shared>, me: usize, depth: u32) {
                work(&shared, me, depth).await;
            }
        )*
        const NAMES: [&str; SPANS] = [$(stringify!($name)),*];
        static CALLS: [Call; SPANS] = [$(|shared, me, depth| Box::pin($name(shared, me, depth))),*];
    };
}

spans! {
    s000 s001 s002 s003 s004 s005 s006 s007 s008 s009 s010 s011 s012 s013 s014 s015
    s016 s017 s018 s019 s020 s021 s022 s023 s024 s025 s026 s027 s028 s029 s030 s031
    s032 s033 s034 s035 s036 s037 s038 s039 s040 s041 s042 s043 s044 s045 s046 s047
    s048 s049 s050 s051 s052 s053 s054 s055 s056 s057 s058 s059 s060 s061 s062 s063
    s064 s065 s066 s067 s068 s069 s070 s071 s072 s073 s074 s075 s076 s077 s078 s079
    s080 s081 s082 s083 s084 s085 s086 s087 s088 s089 s090 s091 s092 s093 s094 s095
    s096 s097 s098 s099 s100 s101 s102 s103 s104 s105 s106 s107 s108 s109 s110 s111
    s112 s113 s114 s115 s116 s117 s118 s119 s120 s121 s122 s123 s124 s125 s126 s127
    s128 s129 s130 s131 s132 s133 s134 s135 s136 s137 s138 s139 s140 s141 s142 s143
    s144 s145 s146 s147 s148 s149 s150 s151 s152 s153 s154 s155 s156 s157 s158 s159
    s160 s161 s162 s163 s164 s165 s166 s167 s168 s169 s170 s171 s172 s173 s174 s175
    s176 s177 s178 s179 s180 s181 s182 s183 s184 s185 s186 s187 s188 s189 s190 s191
    s192 s193 s194 s195 s196 s197 s198 s199
}

impl Shared {
    fn random(&self) -> usize {
        let mixed = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        (mixed.wrapping_mul(mixed >> 32 | 1) >> 33) as usize
    }
}

/// The thread's number; whichever thread asks first has the first.
fn thread_bit() -> u64 {
    static SEEN: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
    let mut seen = SEEN.lock().unwrap();
    let me = thread::current().id();
    let index = seen.iter().position(|id| *id == me).unwrap_or_else(|| {
        seen.push(me);
        seen.len() - 1
    });
    1 << (index % 64)
}

/// Lets other tasks run, and perhaps another thread take this one. Allocates nothing, as tokio's own may.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            Poll::Ready(())
        } else {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

async fn work(shared: &Arc<Shared>, me: usize, depth: u32) {
    for slot in &shared.kept[me] {
        let new = match shared.random() % 4 {
            0 => None,
            n => Some(vec![1; 1 + shared.random() % (n * 300)].into_boxed_slice()),
        };
        let old = std::mem::replace(&mut *slot.lock().unwrap(), new);
        yield_once().await;
        shared.polled_on[me].fetch_or(thread_bit(), Relaxed);
        drop(old);
        if depth > 0 && shared.random().is_multiple_of(4) {
            let other = shared.random() % SPANS;
            // The future is the caller's, and gone when it is done.
            CALLS[other](Arc::clone(shared), other, depth - 1).await;
        }
    }
}

/// Makes the registry allocate all that it will need on this thread, while none of the 200 is entered. Its
/// stack of entered spans stays charged to `warm`, which makes it grow.
fn warm_up(all_here: &Barrier) {
    thread_bit();
    let spans: Vec<_> = (0..4_000).map(|_| info_span!("warm")).collect();
    let deep: Vec<_> = spans.iter().take(30).map(tracing::Span::enter).collect();
    // No thread does it twice while another does not.
    all_here.wait();
    drop(deep);
}

fn check(shared: &Shared, warm: (u64, u64), round: u64) {
    // Workers that park are in motion for a moment.
    let snapshot = loop {
        let snapshot = Snapshot::take();
        if snapshot.is_quiet() {
            break snapshot;
        }
    };
    let heap = snapshot.heap();
    assert_eq!(heap.unaccounted_bytes, 0, "round {round}");
    let mut owned = HashMap::with_capacity(2 * SPANS);
    let mut slot_bytes = snapshot.untagged().slot_bytes + snapshot.untracked().slot_bytes;
    for usage in snapshot.usages() {
        slot_bytes += usage.slot_bytes;
        owned.insert(usage.tag.function(), (usage.live_objs, usage.live_bytes));
    }
    assert_eq!(
        slot_bytes,
        heap.tracked_requested_bytes
            + heap.tracked_waste_bytes
            + heap.untracked_slots_bytes
            + heap.large_objects_bytes,
        "round {round}: tags, untagged and untracked are all there is"
    );
    let mut tagged = 0;
    for (name, slots) in NAMES.iter().zip(&shared.kept) {
        let (mut objs, mut bytes) = (0, 0);
        for slot in slots {
            if let Some(kept) = &*slot.lock().unwrap() {
                objs += 1;
                bytes += kept.len() as u64;
            }
        }
        let found = owned.remove(name).unwrap_or_default();
        assert_eq!(found, (objs, bytes), "round {round}: span {name}");
        tagged += bytes;
    }
    assert_eq!(owned.remove("warm"), Some(warm), "round {round}");
    assert!(
        owned.is_empty(),
        "round {round}: nobody else owns anything: {owned:?}"
    );
    assert!(tagged > 0);
}

#[test]
fn two_hundred_spans_at_every_barrier() {
    let is_long = std::env::var_os("CODETAG_LONG").is_some_and(|v| v == "1");
    let barriers = if is_long { 1_000 } else { 100 };
    enable();
    let layer = TagLayer::new();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .build()
        .unwrap();
    let shared = Arc::new(Shared {
        kept: (0..SPANS).map(|_| Default::default()).collect(),
        random: AtomicU64::new(1),
        polled_on: (0..SPANS).map(|_| AtomicU64::new(0)).collect(),
    });
    runtime.block_on(async {
        let all_here = Arc::new(Barrier::new(WORKERS));
        let warm = (0..WORKERS).map(|_| {
            let all_here = Arc::clone(&all_here);
            tokio::spawn(async move { warm_up(&all_here) })
        });
        for task in warm.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let warm = live("warm");
        let barrier = Arc::new(tokio::sync::Barrier::new(SPANS + 1));
        let tasks = (0..SPANS).map(|me| {
            let (shared, barrier) = (Arc::clone(&shared), Arc::clone(&barrier));
            tokio::spawn(async move {
                for _ in 0..barriers {
                    CALLS[me](Arc::clone(&shared), me, 2).await;
                    // All have done their work; then the figures are looked at; then all go on.
                    barrier.wait().await;
                    barrier.wait().await;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for round in 0..barriers {
            barrier.wait().await;
            if !tags_off() {
                check(&shared, warm, round);
            }
            barrier.wait().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let moved = shared
        .polled_on
        .iter()
        .filter(|threads| threads.load(Relaxed).count_ones() > 1);
    assert_eq!(
        moved.count(),
        SPANS,
        "every task was polled on several threads"
    );
    assert_eq!(NAMES.iter().collect::<HashSet<_>>().len(), SPANS);
}
