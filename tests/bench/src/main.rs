//! The binary `handover-bench`.

use std::process::ExitCode;

/// The allocator of the service, for the baselines too: a figure compares the work of both, not their allocators.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    handover_bench::main()
}
