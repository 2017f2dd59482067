// Says: serde has no such case
#[derive(Serialize, Deserialize, Event)]
#[serde(rename_all = "kebab_case")]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: i64,
}
