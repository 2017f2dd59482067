// Says: `f64` cannot be the id of an aggregate
// Says: the field with `#[event(key)]` is an `i64`, `i32`, `u32`, `Uuid` or `String`, or a type of `integer_id!`
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.left", aggregate = "reader")]
struct ReaderLeft {
    #[event(key)]
    reader: f64,
}
