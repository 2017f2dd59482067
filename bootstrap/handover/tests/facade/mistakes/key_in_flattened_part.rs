// Says: the key is a field of the event itself: the name of a field in a flattened part is not known here
#[derive(Serialize, Deserialize)]
struct Reader {
    reader: i64,
}
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    #[serde(flatten)]
    reader: Reader,
}
