//! The schema of a PostgreSQL database.

/// The query of [`Dialect::catalogue`](crate::dialect::Dialect::catalogue). Without the name of the schema, without the
/// mark of a constraint that existing rows were not checked for, and without the
/// storage parameters of indexes, which a user may change. A list of texts is `ARRAY['a'::character varying]`: the server writes
/// `(ARRAY['a'::character varying])::text[]`, and after the restore of a dump `ARRAY[('a'::character varying)::text]`.
pub(super) const CATALOGUE: &str = "\
    WITH tables AS ( \
        SELECT c.oid, c.relname::text AS name, quote_ident(n.nspname) || '.' AS schema \
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') \
    ), \
    items AS ( \
    SELECT t.name AS relation, 'column' AS kind, a.attname::text AS name, \
           format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END || \
           CASE WHEN a.attidentity <> '' THEN ' identity' ELSE '' END || \
           CASE WHEN d.adbin IS NULL THEN '' WHEN a.attgenerated <> '' THEN ' generated ' ELSE ' default ' END || \
           coalesce(pg_get_expr(d.adbin, d.adrelid), '') || \
           CASE WHEN a.attcollation <> y.typcollation THEN ' collate ' || l.collname ELSE '' END AS definition \
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped \
    JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation \
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
    UNION ALL \
    SELECT t.name, 'index', i.relname::text, \
           regexp_replace(replace(pg_get_indexdef(i.oid), t.schema, ''), ' WITH \\([^)]*\\)', '') || \
           CASE WHEN x.indisvalid THEN '' ELSE ' invalid' END \
    FROM tables t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid \
    WHERE NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = i.oid AND o.contype IN ('p', 'u', 'x')) \
    UNION ALL \
    SELECT t.name, 'constraint', replace(replace(pg_get_constraintdef(o.oid), t.schema, ''), ' NOT VALID', ''), '' \
    FROM tables t JOIN pg_constraint o ON o.conrelid = t.oid AND o.contype IN ('c', 'f', 'p', 'u', 'x') \
    UNION ALL \
    SELECT t.name, 'trigger', g.tgname::text, replace(pg_get_triggerdef(g.oid), t.schema, '') || ' ' || p.prosrc || \
           CASE WHEN g.tgenabled = 'O' THEN '' ELSE ' disabled' END \
    FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal JOIN pg_proc p ON p.oid = g.tgfoid \
    ) \
    SELECT relation, kind, \
           regexp_replace(regexp_replace(name, '\\(ARRAY\\[([^]]*)\\]\\)::text\\[\\]', 'ARRAY[\\1]', 'g'), \
                          '\\((''[^'']*''::character varying)\\)::text', '\\1', 'g') AS name, \
           regexp_replace(regexp_replace(definition, '\\(ARRAY\\[([^]]*)\\]\\)::text\\[\\]', 'ARRAY[\\1]', 'g'), \
                          '\\((''[^'']*''::character varying)\\)::text', '\\1', 'g') AS definition \
    FROM items";
