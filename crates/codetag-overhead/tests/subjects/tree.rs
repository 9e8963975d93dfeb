//! The workload program of a tree that has no codetag: says of itself what each configuration is due to.

use std::process::ExitCode;

#[cfg(feature = "alloc-dhat")]
compile_error!("this profiler cannot be built");

#[unsafe(no_mangle)]
#[inline(never)]
fn codetag_bench_measured(steps: u64) {
    for step in 0..steps {
        std::hint::black_box(step);
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if has("list") {
        println!("workload small.x family=small\nworkload larger.y family=larger");
        return ExitCode::SUCCESS;
    }
    let is_on = std::env::var("CODETAG").is_ok_and(|value| value == "1") || has("--enable");
    let (state, slow) = match (cfg!(feature = "alloc-codetag"), option_env!("CODETAG_BUILD")) {
        (false, _) => ("none", 3),
        (true, Some("off")) => ("tags-off", 1),
        (true, _) if is_on => ("on", 2),
        (true, _) => ("off", 1),
    };
    let (objs, bytes) = if state == "on" { (1_003, 810_432) } else { (0, 0) };
    let say = |when: &str| {
        println!("state:{when} {state}\ntracked_objs:{when} {objs}\ntracked_bytes:{when} {bytes}");
    };
    say("before");
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    let only = only.map_or("", String::as_str);
    for name in ["small.x", "larger.y"].into_iter().filter(|name| name.starts_with(only)) {
        if has("time") {
            println!("ns:{name}:8 {}\ncheck:{name} 1f", 10 * slow);
        } else if has("count") {
            codetag_bench_measured(100_000 * slow);
            codetag_bench_measured(100_000 * slow);
            println!("ops:{name} 1000");
        }
    }
    if has("memory") && state != "none" {
        println!("obj_exts_bytes_per_slot:8 4\nobj_exts_bytes_per_slot:16 6\nobj_exts_bytes_per_slot_max 7.5");
        println!("obj_exts_class:8 4\npage_ext_bytes_per_entry 41\ncode_tag_bytes 64");
        println!("counters_bytes {}", if cfg!(codetag_counters) { 4096 } else { 0 });
    }
    println!("peak_rss_bytes {}", slow * 1_048_576);
    say("after");
    ExitCode::SUCCESS
}
