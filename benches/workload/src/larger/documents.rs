//! A JSON document of 10 MB: parsed, walked, modified, serialised and dropped.

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use fastrand::Rng;
use serde::Deserializer as _;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt::{self, Write};
use std::time::{Duration, Instant};

const FULL_BYTES: usize = 10_000_000;
const QUICK_BYTES: usize = 1_000_000;
/// Elements of which the time is taken together.
const BATCH_LEN: usize = 50;

pub(super) struct Documents {
    text: String,
    due: Counts,
    found: Result<Counts, String>,
    /// What the modified document is as text.
    written: Vec<u8>,
    clock: Clock,
    lanes: [Lane; 1],
}

/// What is known of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    elements: u64,
    /// Of every kind and at every depth.
    values: u64,
    /// Entries of histories that the modification takes out.
    negative: u64,
    /// The sum of all others.
    total: i64,
}

impl Documents {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let (text, due) = generate(setup.seed, setup.scale.of(FULL_BYTES, QUICK_BYTES));
        let batches = (due.elements as usize).div_ceil(BATCH_LEN);
        Ok(Self {
            text,
            due,
            found: Err("was not run".to_owned()),
            written: Vec::new(),
            clock: Clock {
                is_on: setup.is_timed(),
                batches: vec![Duration::ZERO; batches + 1],
            },
            lanes: [setup.lane(batches)?],
        })
    }
}

impl Larger for Documents {
    fn run(&mut self) {
        let clock = &mut self.clock;
        clock.batches.fill(Duration::ZERO);
        self.written = Vec::new();
        let mut elements = match parse(&self.text, clock) {
            Ok(elements) => elements,
            Err(error) => {
                self.found = Err(format!("the document: {error}"));
                return;
            }
        };
        let mut found = Counts {
            elements: elements.len() as u64,
            ..Counts::default()
        };
        clock.each_batch(&mut elements, |batch| {
            found.values += batch.iter().map(count_values).sum::<u64>();
        });
        clock.each_batch(&mut elements, |batch| {
            for element in batch {
                modify(element, &mut found);
            }
        });
        let mut written = vec![b'['];
        let mut error = None;
        clock.each_batch(&mut elements, |batch| {
            error = serialise(batch, &mut written).err().or(error.take());
        });
        written.push(b']');
        at_peak();
        for batch in 0..elements.len().div_ceil(BATCH_LEN) {
            let start = clock.start();
            elements.drain(..BATCH_LEN.min(elements.len()));
            clock.stop(batch, start);
        }
        self.written = written;
        self.found = match error {
            Some(error) => Err(format!("the document cannot be written: {error}")),
            None => Ok(found),
        };
        let mut left = self.due.elements;
        for time in &self.clock.batches {
            let len = left.min(BATCH_LEN as u64);
            if self.clock.is_on && len > 0 {
                self.lanes[0].record(*time, len);
            }
            left -= len;
        }
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let found = self.found.as_ref().map_err(Clone::clone)?;
        expect("elements", found.elements, self.due.elements)?;
        expect("values", found.values, self.due.values)?;
        expect("negative entries", found.negative, self.due.negative)?;
        expect("the total", found.total, self.due.total)?;
        Ok(Outcome {
            ops: found.elements,
            check: mix::bytes(&self.written),
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// The time that each batch took over all steps.
struct Clock {
    is_on: bool,
    batches: Vec<Duration>,
}

impl Clock {
    fn start(&self) -> Option<Instant> {
        self.is_on.then(Instant::now)
    }

    fn stop(&mut self, batch: usize, start: Option<Instant>) {
        if let (Some(start), Some(time)) = (start, self.batches.get_mut(batch)) {
            *time += start.elapsed();
        }
    }

    fn each_batch(&mut self, elements: &mut [Value], mut step: impl FnMut(&mut [Value])) {
        for (batch, elements) in elements.chunks_mut(BATCH_LEN).enumerate() {
            let start = self.start();
            step(elements);
            self.stop(batch, start);
        }
    }
}

/// A document of about `bytes`, and what is in it.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn generate(seed: u64, bytes: usize) -> (String, Counts) {
    let mut rng = Rng::with_seed(seed);
    let mut text = String::with_capacity(bytes + 4_096);
    let mut counts = Counts::default();
    text.push('[');
    while text.len() < bytes {
        if counts.elements > 0 {
            text.push(',');
        }
        element(&mut text, &mut rng, &mut counts);
    }
    text.push(']');
    (text, counts)
}

/// An account with its history. Amounts are whole, so that their sum is exact.
fn element(text: &mut String, rng: &mut Rng, counts: &mut Counts) {
    let id = counts.elements;
    counts.elements += 1;
    // Writing to a string cannot fail.
    _ = write!(text, r#"{{"id":{id},"name":""#);
    word(text, rng, 12);
    text.push(' ');
    word(text, rng, 16);
    text.push_str(r#"","email":""#);
    word(text, rng, 10);
    let balance = f64::from(rng.i32(-10_000_000..10_000_000)) / 100.0;
    _ = write!(
        text,
        r#"@example.org","active":{},"balance":{balance:.2},"tags":["#,
        rng.bool()
    );
    let tags = rng.u64(1..6);
    for tag in 0..tags {
        text.push_str(if tag == 0 { "\"" } else { ",\"" });
        word(text, rng, 8);
        text.push('"');
    }
    text.push_str(r#"],"address":{"street":""#);
    word(text, rng, 20);
    _ = write!(text, r#" \u00df {}","city":""#, rng.u32(1..200));
    word(text, rng, 14);
    let entries = rng.u64(2..10);
    text.push_str(r#"","country":null},"history":["#);
    for entry in 0..entries {
        let amount = rng.i64(-2_000..10_000);
        if amount < 0 {
            counts.negative += 1;
        } else {
            counts.total += amount;
        }
        let comma = if entry == 0 { "" } else { "," };
        let at = 1_700_000_000 + rng.u32(0..50_000_000);
        _ = write!(
            text,
            r#"{comma}{{"at":{at},"amount":{amount},"note":"line\t"#
        );
        word(text, rng, 30);
        text.push_str("\"}");
    }
    text.push_str("]}");
    // The element, its five plain members, the tags, the address, the history.
    counts.values += 6 + (1 + tags) + 4 + (1 + 4 * entries);
}

fn word(text: &mut String, rng: &mut Rng, max_len: usize) {
    for _ in 0..rng.usize(3..=max_len) {
        text.push(rng.lowercase());
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn parse(text: &str, clock: &mut Clock) -> serde_json::Result<Vec<Value>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let elements = deserializer.deserialize_seq(Batches(clock))?;
    deserializer.end()?;
    Ok(elements)
}

/// Reads the elements of an array, and the clock between batches.
struct Batches<'c>(&'c mut Clock);

impl<'de> Visitor<'de> for Batches<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        for batch in 0..=usize::MAX / BATCH_LEN {
            let start = self.0.start();
            for _ in 0..BATCH_LEN {
                let Some(element) = seq.next_element()? else {
                    self.0.stop(batch, start);
                    return Ok(elements);
                };
                elements.push(element);
            }
            self.0.stop(batch, start);
        }
        Err(A::Error::custom("too many elements"))
    }
}

fn count_values(value: &Value) -> u64 {
    1 + match value {
        Value::Array(values) => values.iter().map(count_values).sum(),
        Value::Object(members) => members.values().map(count_values).sum(),
        _ => 0,
    }
}

fn modify(element: &mut Value, found: &mut Counts) {
    let Some(members) = element.as_object_mut() else {
        return;
    };
    if let Some(Value::String(name)) = members.get_mut("name") {
        rename(name);
    }
    let mut total = 0;
    if let Some(Value::Array(history)) = members.get_mut("history") {
        found.negative += prune(history);
        total = history
            .iter()
            .filter_map(|entry| entry.get("amount")?.as_i64())
            .sum();
    }
    found.total += total;
    add_members(members, total);
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn rename(name: &mut String) {
    *name = name.to_uppercase();
}

/// Takes out negative entries and says how many.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn prune(history: &mut Vec<Value>) -> u64 {
    let before = history.len();
    history.retain(|entry| {
        entry
            .get("amount")
            .and_then(Value::as_i64)
            .is_some_and(|amount| amount >= 0)
    });
    (before - history.len()) as u64
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn add_members(members: &mut serde_json::Map<String, Value>, total: i64) {
    members.insert("total".to_owned(), total.into());
    members.remove("address");
    if let Some(Value::Array(tags)) = members.get_mut("tags") {
        tags.push(Value::String(format!("total-{total}")));
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn serialise(batch: &[Value], written: &mut Vec<u8>) -> serde_json::Result<()> {
    for element in batch {
        if written.len() > 1 {
            written.push(b',');
        }
        serde_json::to_writer(&mut *written, element)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Documents, Setup};
    use crate::larger::Larger;
    use crate::scale::Scale;
    use serde_json::Value;

    #[test]
    fn what_is_written_is_the_modified_document() {
        let mut documents = Documents::new(Setup {
            scale: Scale::Tiny,
            seed: 3,
            timed_runs: 1,
        })
        .expect("a document");
        documents.run();
        let before: Vec<Value> = serde_json::from_str(&documents.text).expect("JSON");
        let after: Vec<Value> = serde_json::from_slice(&documents.written).expect("JSON");
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            let name = before["name"].as_str().expect("a string");
            assert_eq!(after["name"], name.to_uppercase());
            let total: i64 = before["history"]
                .as_array()
                .expect("an array")
                .iter()
                .map(|entry| entry["amount"].as_i64().expect("a number"))
                .filter(|amount| *amount >= 0)
                .sum();
            assert_eq!(after["total"], total);
            assert_eq!(after["address"], Value::Null);
        }
        let samples = documents.lanes[0].samples().count();
        assert_eq!(samples, before.len().div_ceil(super::BATCH_LEN));
    }
}
