// Says: an event is a struct with named fields
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
enum ReaderLeft {
    Moved,
}
