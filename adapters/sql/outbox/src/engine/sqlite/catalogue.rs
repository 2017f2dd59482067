//! The schema of an SQLite database.

/// The query of [`Dialect::catalogue`](crate::dialect::Dialect::catalogue). An index and a trigger are defined by the statement
/// that created them.
pub(super) const CATALOGUE: &str = "\
    SELECT t.name AS relation, 'column' AS kind, c.name AS name, \
           lower(c.type) || iif(c.\"notnull\" OR c.pk, ' not null', '') || coalesce(' default ' || c.dflt_value, '') || \
           iif(c.pk, ' primary key ' || c.pk, '') || iif(c.hidden IN (2, 3), ' generated', '') || \
           iif(c.pk AND lower(c.type) = 'integer', ' identity', '') AS definition \
    FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table' \
    UNION ALL \
    SELECT tbl_name, type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL \
    UNION ALL \
    SELECT t.name, 'constraint', \
           'UNIQUE (' || (SELECT group_concat(c.name, ', ') FROM pragma_index_info(i.name) c) || ')', '' \
    FROM sqlite_schema t, pragma_index_list(t.name) i WHERE t.type = 'table' AND i.origin = 'u' \
    UNION ALL \
    SELECT t.name, 'constraint', 'FOREIGN KEY (' || f.\"from\" || ') REFERENCES ' || f.\"table\", '' \
    FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table' \
    UNION ALL \
    SELECT name, 'created', '', sql FROM sqlite_schema WHERE type = 'table'";

#[cfg(test)]
mod tests {
    use crate::dialect::CREATED;

    #[test]
    fn query_names_the_kind_of_created_tables() {
        assert!(super::CATALOGUE.contains(&format!("'{CREATED}'")));
    }
}
