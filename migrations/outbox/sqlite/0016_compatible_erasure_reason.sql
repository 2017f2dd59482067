-- Reason of the last erasure that masked texts of the row, as in `outbox_archive_files`. NULL: texts were never masked, or by a process
-- of an earlier version.
-- `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', erased_reason TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT erased_reason FROM outbox_events LIMIT 0;
