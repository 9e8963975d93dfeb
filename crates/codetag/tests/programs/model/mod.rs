//! A model test: random operations, and after each what it must have done; at snapshots, every
//! figure.
//!
//! `ops` says what operations there are and draws them from random numbers or from bytes; the
//! `interpreter` does them on several threads, one after the other, and keeps every block's
//! contents, address and size in mind. What the figures must be is `watch`'s.
//!
//! `CODETAG_MODEL_OPS` is the number of operations, `CODETAG_MODEL_SEED` the seed; with
//! `CODETAG_MODEL_QUICK=1` all but one in 128 are small and on one thread, for a run of a billion.

mod interpreter;
mod ops;
mod workers;

use crate::runner::Program;
use codetag::StateKind;
use interpreter::Interpreter;
use ops::{Bytes, Random, Source};

pub(crate) fn programs() -> Vec<Program> {
    let mut all = vec![
        Program::new("random_operations_agree_with_the_model", random),
        Program::new(
            "operations_drawn_from_bytes_agree_with_the_model",
            from_bytes,
        ),
    ];
    if codetag::state().kind != StateKind::TagsOff {
        all.push(
            Program::new("random_operations_agree_with_the_model_under_never", random)
                .with_codetag("never"),
        );
    }
    all.into_iter().map(Program::watched).collect()
}

fn env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|e| panic!("{name}={value}: {e}")),
    )
}

fn seed() -> u64 {
    let seed = env("CODETAG_MODEL_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("CODETAG_MODEL_SEED={seed}");
    seed
}

/// Does operations until `source` has no more.
fn run(mut source: impl Source) {
    let mut interpreter = Interpreter::new();
    while let Some(op) = ops::next(&mut source) {
        interpreter.run(op);
    }
    interpreter.finish();
}

fn random() {
    let ops = env("CODETAG_MODEL_OPS").unwrap_or(100_000);
    let source = Random::new(seed(), ops, env("CODETAG_MODEL_QUICK") == Some(1));
    println!("CODETAG_MODEL_OPS={ops}");
    run(source);
}

/// Operations that a fuzzer's bytes stand for.
#[allow(dead_code, reason = "the fuzz target shares this file")]
pub(crate) fn run_bytes(bytes: &[u8]) {
    run(Bytes::new(bytes));
}

/// As a fuzz target draws them: many short runs, and bytes that are no good.
fn from_bytes() {
    run(Bytes::new(&[]));
    run(Bytes::new(&[0]));
    for byte in 0..=255 {
        run(Bytes::new(&[byte; 40]));
    }
    let mut rng = fastrand::Rng::with_seed(seed());
    let mut bytes = [0; 2000];
    for _ in 0..40 {
        rng.fill(&mut bytes);
        run(Bytes::new(&bytes));
    }
}
