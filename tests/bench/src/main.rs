//! The binary `handover-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    handover_bench::main()
}
