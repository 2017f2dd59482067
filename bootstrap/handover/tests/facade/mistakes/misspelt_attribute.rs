// Says: expected `name`, `aggregate`, `routing_key`, `summary` or `unordered`
#[derive(Serialize, Deserialize, Event)]
#[event(nam = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: i64,
}
