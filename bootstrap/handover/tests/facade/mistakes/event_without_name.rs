// Says: an event needs `#[event(name = "..")]` on the struct
#[derive(Serialize, Deserialize, Event)]
#[event(aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: i64,
}
