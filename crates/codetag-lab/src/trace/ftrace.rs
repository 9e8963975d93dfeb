//! The kernel's own text: `/sys/kernel/tracing/trace`, `trace_pipe`, `trace-cmd report`, `perf script`.
//!
//! A line is `COMM-PID [CPU] FLAGS TIME: EVENT: key=value …`; what stands before the time is looked at for the
//! CPU only. Fields are found by their names, so those that a kernel adds or leaves out do no harm:
//!
//! | kernel | `kmalloc` and `kmem_cache_alloc` | `kmem_cache_free` | pages |
//! |---|---|---|---|
//! | before 5.4 | `call_site` is an address | no name | `pfn` is decimal |
//! | 5.4 | `call_site` is a symbol | | |
//! | 5.13 | | `name=` | `pfn` is hexadecimal |
//! | 5.19 | `accounted=` | | |
//! | 6.1 | `node=` too; the events `…_node` are gone | | |
//!
//! Lines before `@@EARLY_END` have no time: `NUMBER EVENT: key=value …`, as kernels write them that keep events in
//! an array until tracing is up.

use super::line::{
    Meaning, RawAlloc, RawEvent, RawKind, block, cpu, decimal, hexadecimal, seconds, size,
};
use crate::event::{GfpFlags, Pages};

/// What the lines so far say about the lines to come.
#[derive(Debug, Default)]
pub(crate) struct Ftrace {
    /// Entries that the last header announced and that were not read yet.
    announced: Option<u64>,
    /// Numbers of the early part: the one due next.
    early_next: Option<u64>,
    /// `@@EARLY_END` is to come.
    early: bool,
}

impl Ftrace {
    /// What is missing at the end of the file, as a sentence, if anything is.
    pub(crate) fn missing(&self) -> Option<String> {
        if self.early {
            return Some("the file ends before @@EARLY_END".to_owned());
        }
        let entries = self.announced.filter(|&entries| entries > 0)?;
        Some(format!(
            "the file ends before {entries} of the entries that its header announces"
        ))
    }

    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Meaning<'a> {
        let text = line.trim_ascii();
        match text.first() {
            None => return Meaning::Skipped,
            Some(b'#') => return self.header(text),
            Some(b'@') if text.starts_with(b"@@") => return self.marker(text),
            Some(b'C') if text.starts_with(b"CPU") => {
                if let Some(lost) = lost(text) {
                    return lost;
                }
            }
            Some(_) => {}
        }
        let Some(head) = Head::read(text) else {
            return if is_beside(text) {
                Meaning::Skipped
            } else if text.iter().any(|&byte| byte == 0 || byte == 0x7f) {
                Meaning::Malformed("binary, not text")
            } else {
                Meaning::Malformed("no event, no header and no comment")
            };
        };
        if let Some(entries) = &mut self.announced {
            *entries = entries.saturating_sub(1);
        }
        let mut lost_before = 0;
        if let Some(number) = head.early_number {
            let due = self.early_next.unwrap_or(number);
            lost_before = number.saturating_sub(due);
            self.early_next = Some(number.saturating_add(1));
        }
        let kind = match head.event {
            b"kmalloc" | b"kmalloc_node" => alloc(head.fields, false),
            b"kmem_cache_alloc" | b"kmem_cache_alloc_node" => alloc(head.fields, true),
            b"kfree" | b"kmem_cache_free" => free(head.fields),
            b"mm_page_alloc" => pages(head.fields, RawKind::PageAlloc),
            // The two names of before 3.2. `mm_page_free_batched` is no free of its own: `mm_page_free` comes with it.
            b"mm_page_free" | b"mm_page_free_direct" | b"mm_pagevec_free" => {
                pages(head.fields, RawKind::PageFree)
            }
            _ => return Meaning::Other,
        };
        match kind {
            Ok(Some(kind)) => Meaning::Event(RawEvent {
                time_ns: head.time_ns,
                cpu: head.cpu,
                lost_before,
                kind,
            }),
            Ok(None) => Meaning::Other,
            Err(reason) => Meaning::Malformed(reason),
        }
    }

    /// `# entries-in-buffer/entries-written: 10/12   #P:2` of the kernel, `# entries 10 lost 2` of an early part.
    fn header<'a>(&mut self, text: &[u8]) -> Meaning<'a> {
        let mut words = words(text).skip(1);
        match words.next() {
            Some(b"entries-in-buffer/entries-written:") => {
                let Some((held, written)) = words.next().and_then(|word| {
                    let slash = word.iter().position(|&byte| byte == b'/')?;
                    Some((decimal(&word[..slash])?, decimal(&word[slash + 1..])?))
                }) else {
                    return Meaning::Malformed("entries announced that are no numbers");
                };
                self.announced = Some(held);
                Meaning::Lost(written.saturating_sub(held))
            }
            Some(b"entries") => {
                let numbers = [words.next(), words.nth(1)].map(|word| word.and_then(decimal));
                let [Some(entries), Some(lost)] = numbers else {
                    return Meaning::Skipped;
                };
                self.announced = Some(entries);
                self.early = true;
                Meaning::Lost(lost)
            }
            _ => Meaning::Skipped,
        }
    }

    fn marker<'a>(&mut self, text: &[u8]) -> Meaning<'a> {
        if text == b"@@EARLY_END" {
            self.early = false;
            self.early_next = None;
        }
        Meaning::Skipped
    }
}

/// What stands before the fields.
struct Head<'a> {
    time_ns: u64,
    cpu: u16,
    early_number: Option<u64>,
    event: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// `None` if nothing of the line is a time, or a number with an event's name behind it.
    fn read(text: &'a [u8]) -> Option<Self> {
        let mut rest = text;
        let mut on_cpu = 0;
        let mut first = true;
        while let Some((word, behind)) = word(rest) {
            if let Some(body) = word.strip_suffix(b":") {
                if let Some(time_ns) = seconds(body) {
                    let (event, fields) = event_name(behind);
                    return Some(Self {
                        time_ns,
                        cpu: on_cpu,
                        early_number: None,
                        event,
                        fields,
                    });
                }
            } else if let Some(body) = word.strip_prefix(b"[") {
                let body = body.strip_suffix(b"]").unwrap_or_default();
                on_cpu = cpu(body).unwrap_or(on_cpu);
            } else if first && let Some(number) = decimal(word) {
                let (event, fields) = event_name(behind);
                if !event.is_empty() {
                    return Some(Self {
                        time_ns: 0,
                        cpu: 0,
                        early_number: Some(number),
                        event,
                        fields,
                    });
                }
            }
            first = false;
            rest = behind;
        }
        None
    }
}

/// `kmalloc: …`, `kmem:kmalloc: …`; an empty name where none stands, as in lines of the function tracer.
fn event_name(text: &[u8]) -> (&[u8], &[u8]) {
    match word(text) {
        Some((word, fields)) if let Some(name) = word.strip_suffix(b":") => {
            (name.strip_prefix(b"kmem:").unwrap_or(name), fields)
        }
        _ => (b"", text),
    }
}

/// `CPU:0 [LOST 12 EVENTS]` of the kernel, `CPU:0 [12 EVENTS DROPPED]` of trace-cmd, which may not know how many.
fn lost<'a>(text: &[u8]) -> Option<Meaning<'a>> {
    let open = memchr::memchr(b'[', text)?;
    let inner = text[open + 1..].strip_suffix(b"]")?;
    if !inner.ends_with(b"EVENTS") && !inner.ends_with(b"EVENTS DROPPED") {
        return None;
    }
    let count = words(inner).find_map(decimal);
    Some(Meaning::Lost(count.unwrap_or(1)))
}

/// Lines that tools and kernels write beside events: stacks, the head of trace-cmd's report, dumps at a panic.
fn is_beside(text: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] = [
        b"=>",
        b"<stack trace>",
        b"<user stack trace>",
        b"cpus=",
        b"version = ",
        b"CPU ",
        b"Dumping ftrace buffer",
    ];
    STARTS.iter().any(|start| text.starts_with(start)) || text.iter().all(|&byte| byte == b'-')
}

/// The values of the known keys, as they stand.
#[derive(Default)]
struct Fields<'a> {
    call_site: Option<&'a [u8]>,
    symbol: Option<&'a [u8]>,
    ptr: Option<&'a [u8]>,
    bytes_req: Option<&'a [u8]>,
    bytes_alloc: Option<&'a [u8]>,
    gfp_flags: Option<&'a [u8]>,
    accounted: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    page: Option<&'a [u8]>,
    pfn: Option<&'a [u8]>,
    order: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a [u8]) -> Self {
        let mut fields = Self::default();
        let mut rest = text;
        while let Some((token, mut behind)) = word(rest) {
            let Some(equals) = memchr::memchr(b'=', token) else {
                // trace-cmd resolves an address in front of the fields; a module's name behind a symbol is left out.
                if let Some(symbol) = token.strip_prefix(b"(").and_then(|t| t.strip_suffix(b")")) {
                    fields.symbol.get_or_insert(symbol);
                }
                rest = behind;
                continue;
            };
            let mut value = &token[equals + 1..];
            if value.is_empty()
                && let Some((padded, further)) = word(behind)
                && !padded.contains(&b'=')
            {
                // `%p` of old kernels prints null in the middle of spaces.
                (value, behind) = (padded, further);
            }
            let field = match &token[..equals] {
                b"call_site" => &mut fields.call_site,
                b"ptr" => &mut fields.ptr,
                b"bytes_req" => &mut fields.bytes_req,
                b"bytes_alloc" => &mut fields.bytes_alloc,
                b"gfp_flags" => &mut fields.gfp_flags,
                b"accounted" => &mut fields.accounted,
                b"page" => &mut fields.page,
                b"pfn" => &mut fields.pfn,
                b"order" => &mut fields.order,
                b"name" => {
                    // The last field; the name of a cache may hold spaces.
                    let start = rest.len() - rest.trim_ascii_start().len() + equals + 1;
                    fields.name = Some(rest[start..].trim_ascii());
                    break;
                }
                _ => &mut None,
            };
            *field = Some(value);
            rest = behind;
        }
        fields
    }
}

type Read<'a> = Result<Option<RawKind<'a>>, &'static str>;

/// `None` if the allocation failed.
fn alloc(text: &[u8], from_cache: bool) -> Read<'_> {
    let fields = Fields::read(text);
    let ptr = pointer(fields.ptr)?;
    let bytes_req = fields
        .bytes_req
        .and_then(size)
        .ok_or("no bytes_req that is a size")?;
    let bytes_alloc = fields
        .bytes_alloc
        .and_then(size)
        .ok_or("no bytes_alloc that is a size")?;
    let gfp_flags = fields.gfp_flags.ok_or("no gfp_flags")?;
    let call_site = fields.call_site.ok_or("no call_site")?;
    if ptr == 0 {
        return Ok(None);
    }
    let mut flags = gfp(gfp_flags);
    if fields.accounted == Some(b"true") {
        flags = flags.with(GfpFlags::ACCOUNT);
    }
    Ok(Some(RawKind::Alloc(RawAlloc {
        ptr,
        from_cache,
        cache: fields.name.filter(|name| !name.is_empty()),
        bytes_req,
        bytes_alloc,
        call_site: fields.symbol.unwrap_or(call_site),
        flags,
    })))
}

/// Whether a call site is in the functions that run the callbacks of a grace period: `rcu_do_batch`, with tiny RCU
/// `rcu_process_callbacks`.
fn is_rcu_callback(call_site: Option<&[u8]>) -> bool {
    call_site.is_some_and(|site| site.starts_with(b"rcu_"))
}

fn free(text: &[u8]) -> Read<'_> {
    let fields = Fields::read(text);
    let ptr = pointer(fields.ptr)?;
    Ok(Some(if ptr == 0 {
        RawKind::NullFree
    } else {
        RawKind::Free {
            ptr,
            cache: fields.name.filter(|name| !name.is_empty()),
            by_rcu: is_rcu_callback(fields.symbol.or(fields.call_site)),
        }
    }))
}

/// `None` if the allocation failed: such events have no page, and as a number 0 or the largest.
fn pages<'a>(text: &'a [u8], kind: impl Fn(Pages) -> RawKind<'a>) -> Read<'a> {
    let fields = Fields::read(text);
    let pfn = fields
        .pfn
        .and_then(|value| match value.strip_prefix(b"0x") {
            Some(hex) => hexadecimal(hex),
            None => decimal(value),
        });
    let pfn = pfn.ok_or("no pfn that is a number")?;
    let order = fields.order.and_then(decimal);
    let order = order.ok_or("no order that is a number")?;
    let no_page = matches!(pointer(fields.page), Ok(0));
    if pfn == u64::MAX || (no_page && pfn == 0) {
        return Ok(None);
    }
    block(pfn, order).map(|pages| Some(kind(pages)))
}

/// Hexadecimal with or without `0x`; `(null)` and `(nil)` are 0.
fn pointer(value: Option<&[u8]>) -> Result<u64, &'static str> {
    let value = value.ok_or("no ptr")?;
    match value {
        b"(null)" | b"(nil)" => return Ok(0),
        b"(____ptrval____)" => {
            return Err("a hidden pointer: boot the kernel with no_hash_pointers");
        }
        _ => {}
    }
    let hex = value.strip_prefix(b"0x").unwrap_or(value);
    hexadecimal(hex).ok_or("a ptr that is no hexadecimal number")
}

/// Words as [`GfpFlags::from_text`] reads them, the names of before 4.6, and numbers where a tool knew no names.
fn gfp(text: &[u8]) -> GfpFlags {
    let mut flags = GfpFlags::default();
    for word in text.split(|&byte| byte == b'|') {
        flags = flags.with(match word {
            // The two that nearly all events have.
            b"GFP_KERNEL" | b"__GFP_ZERO" => continue,
            b"GFP_RECLAIMABLE" | b"GFP_TEMPORARY" => GfpFlags::RECLAIMABLE,
            b"GFP_NOFAIL" => GfpFlags::NOFAIL,
            _ if word.first().is_some_and(u8::is_ascii_digit) => gfp_bits(word),
            _ => str::from_utf8(word).map_or(flags, GfpFlags::from_text),
        });
    }
    flags
}

/// The bits of 4.x to 6.x. `__GFP_NOFAIL` and `__GFP_ACCOUNT` have had others; bits that moved are left out.
fn gfp_bits(word: &[u8]) -> GfpFlags {
    let hex = word.strip_prefix(b"0x").unwrap_or(word);
    let bits = hexadecimal(hex).unwrap_or(0);
    let mut flags = GfpFlags::default();
    for (bit, flag) in [
        (0x1, GfpFlags::DMA),
        (0x10, GfpFlags::RECLAIMABLE),
        (0x40_0000, GfpFlags::ACCOUNT),
    ] {
        if bits & bit != 0 {
            flags = flags.with(flag);
        }
    }
    flags
}

/// The first word of `text` and what is behind it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let end = text
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(text.len());
    Some(text.split_at(end))
}

fn words(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (found, behind) = word(text)?;
        text = behind;
        Some(found)
    })
}
