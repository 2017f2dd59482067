//! How much memory this process holds, as Linux counts it.

use serde::Serialize;

const STATUS: &str = "/proc/self/status";
const PEAK: &str = "/proc/self/clear_refs";
/// What, written there, makes the peak begin anew.
const RESET: &str = "5";

/// Resident memory around some work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// Before, in MiB.
    pub(super) before_mib: f64,
    /// At most, while it was done.
    pub(super) peak_mib: f64,
}

/// What is resident now. Where it cannot be told, nothing.
pub(super) fn begin() -> Option<f64> {
    // Refused, the peak is that of the whole process: no less than the truth.
    let _ = std::fs::write(PEAK, RESET);
    of("VmRSS:")
}

/// What it came to since.
pub(super) fn end(before: Option<f64>) -> Option<Memory> {
    Some(Memory { before_mib: before?, peak_mib: of("VmHWM:")? })
}

/// The greatest of some.
pub(super) fn greatest(all: impl Iterator<Item = Memory>) -> Option<Memory> {
    all.max_by(|one, two| one.peak_mib.total_cmp(&two.peak_mib))
}

fn of(name: &str) -> Option<f64> {
    mib(&std::fs::read_to_string(STATUS).ok()?, name)
}

fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(f64::from(line.trim().strip_suffix(" kB")?.parse::<u32>().ok()?) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::mib;

    #[test]
    fn kilobytes_are_read_by_their_name() {
        let status = "VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 512 kB\n";
        assert_eq!((mib(status, "VmHWM:"), mib(status, "VmRSS:")), (Some(2.0), Some(0.5)));
        assert_eq!(mib("VmHWM:\tmuch\n", "VmHWM:"), None);
    }
}
