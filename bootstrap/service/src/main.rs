//! The binary `handover`.

fn main() -> std::process::ExitCode {
    handover::main()
}
