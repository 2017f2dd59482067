//! The binary `handover`.

/// The service makes many small allocations in each request and event, for which mimalloc needs less processor time than
/// the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    handover_service::main()
}
