//! Memory of this process, from `/proc`.

use serde::Serialize;

const STATUS: &str = "/proc/self/status";
const CLEAR_REFS: &str = "/proc/self/clear_refs";
/// The value that resets `VmHWM` to the current `VmRSS` when it is written to `clear_refs` (proc(5)).
const RESET_PEAK: &str = "5";

/// Resident memory during a measurement, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    pub before_mib: f64,
    pub peak_mib: f64,
}

/// Resets the peak and returns the resident memory in MiB; `None` if `/proc` does not contain it.
pub(crate) fn start() -> Option<f64> {
    // Without permission to reset it, the peak is that of the whole process lifetime, which is an upper bound.
    let _ = std::fs::write(CLEAR_REFS, RESET_PEAK);
    read("VmRSS:")
}

/// The peak since [`start`], which returned `before_mib`.
pub(crate) fn finish(before_mib: Option<f64>) -> Option<Memory> {
    Some(Memory { before_mib: before_mib?, peak_mib: read("VmHWM:")? })
}

/// The measurement with the highest peak.
pub(crate) fn greatest(all: impl Iterator<Item = Memory>) -> Option<Memory> {
    all.max_by(|one, other| one.peak_mib.total_cmp(&other.peak_mib))
}

fn read(field: &str) -> Option<f64> {
    mib(&std::fs::read_to_string(STATUS).ok()?, field)
}

/// Converts a field of `/proc/self/status` from kB to MiB.
pub fn mib(status: &str, field: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(f64::from(value.trim().strip_suffix(" kB")?.parse::<u32>().ok()?) / 1024.0)
}
