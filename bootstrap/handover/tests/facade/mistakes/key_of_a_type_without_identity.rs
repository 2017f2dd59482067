// Says: f64
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: f64,
}
