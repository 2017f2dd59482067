// Says: mark the field with the id of the aggregate: `#[event(key)]`
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    reader: i64,
}
