//! Writes the faults of `tests/simulator/faults` into a copy of the workspace.

use std::io;
use std::path::PathBuf;

use clap::Parser;
use handover_simulator::overlay;

/// Writes every fault of tests/simulator/faults, with their switch, into a copy of the workspace
#[derive(Parser)]
#[command(name = "overlay", max_term_width = 100)]
struct Arguments {
    /// The root of the copy; its files are changed
    root: PathBuf,
}

fn main() -> io::Result<()> {
    let Arguments { root } = Arguments::parse();
    let faults = overlay::faults()?;
    overlay::apply(&faults, &root)?;
    println!("{} faults written into {}", faults.len(), root.display());
    Ok(())
}
