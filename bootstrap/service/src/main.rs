//! The binary `handover`.

fn main() -> std::process::ExitCode {
    handover_service::main()
}
