//! The schema of a MySQL or MariaDB database.

/// The query of [`Dialect::catalogue`](crate::dialect::Dialect::catalogue). Contains only what both servers report in the same way:
/// neither the conditions of constraints nor generated expressions, and a number instead of the name that a server gives to a
/// `CHECK` without name. There are no triggers: the schema has none on these servers, and only a user with the privilege
/// TRIGGER sees them.
pub(super) const CATALOGUE: &str = "\
    SELECT CAST(c.table_name AS CHAR) AS relation, 'column' AS kind, CAST(c.column_name AS CHAR) AS name, \
           CONCAT(REGEXP_REPLACE(CAST(c.column_type AS CHAR), 'int[(][0-9]+[)]', 'int'), \
                  IF(c.is_nullable = 'NO', ' not null', ''), \
                  IF(c.extra LIKE '%auto_increment%', ' auto_increment', ''), \
                  IF(COALESCE(c.generation_expression, '') = '', '', ' generated'), \
                  IF(COALESCE(c.column_default, 'NULL') = 'NULL', '', \
                     CONCAT(' default ', TRIM(BOTH '''' FROM CAST(c.column_default AS CHAR)))), \
                  IF(COALESCE(c.collation_name, 'utf8mb4_nopad_bin') IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin'), '', \
                     CONCAT(' collate ', CAST(c.collation_name AS CHAR)))) AS definition \
    FROM information_schema.columns c WHERE c.table_schema = DATABASE() \
    UNION ALL \
    SELECT CAST(s.table_name AS CHAR), 'index', CAST(s.index_name AS CHAR), \
           CONCAT(IF(s.non_unique, '', 'unique '), '(', GROUP_CONCAT(CAST(s.column_name AS CHAR) \
                  ORDER BY s.seq_in_index SEPARATOR ', '), ')') \
    FROM information_schema.statistics s WHERE s.table_schema = DATABASE() \
    GROUP BY s.table_name, s.index_name, s.non_unique \
    UNION ALL \
    SELECT named.relation, 'constraint', \
           IF(named.has_name, CONCAT(named.kind, ' ', named.name), \
              CONCAT(named.kind, ' without name, number ', \
                     ROW_NUMBER() OVER (PARTITION BY named.relation, named.kind, named.has_name ORDER BY named.name))), '' \
    FROM (SELECT CAST(o.table_name AS CHAR) AS relation, CAST(o.constraint_type AS CHAR) AS kind, \
                 CAST(o.constraint_name AS CHAR) AS name, \
                 o.constraint_type <> 'CHECK' OR (o.constraint_name NOT REGEXP '(^CONSTRAINT|_chk)_[0-9]+$' AND NOT EXISTS ( \
                     SELECT 1 FROM information_schema.columns c WHERE c.table_schema = DATABASE() \
                     AND c.table_name = o.table_name AND c.column_name = o.constraint_name)) AS has_name \
          FROM information_schema.table_constraints o \
          WHERE o.table_schema = DATABASE() AND o.constraint_type IN ('CHECK', 'FOREIGN KEY')) named";
