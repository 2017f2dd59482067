//! Embedded migrations are read at compile time; without this, cargo would not notice a new one.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
