//! The program that the benches run. What it does is in the library; here is the allocator that it is linked with,
//! so that another one, or another order of the functions, recompiles this file alone.

use std::process::ExitCode;

#[cfg(allocator = "codetag")]
#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

#[cfg(allocator = "tracking")]
#[global_allocator]
static ALLOC: tracking_allocator::Allocator<std::alloc::System> =
    tracking_allocator::Allocator::system();

#[cfg(allocator = "dhat")]
#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;

#[cfg(any(allocator = "jemalloc", allocator = "jemalloc-profiling"))]
#[global_allocator]
static ALLOC: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads before `main`: a pointer to a C string, as jemalloc declares it.
#[cfg(allocator = "jemalloc-profiling")]
#[expect(
    unsafe_code,
    reason = "jemalloc looks for the symbol, which nothing else defines strongly"
)]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static JEMALLOC_CONF: &[u8; 27] = b"prof:true,prof_active:true\0";

#[cfg(allocator = "mimalloc")]
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(allocator = "system")]
#[global_allocator]
static ALLOC: std::alloc::System = std::alloc::System;

fn main() -> ExitCode {
    codetag_bench_workload::main()
}
