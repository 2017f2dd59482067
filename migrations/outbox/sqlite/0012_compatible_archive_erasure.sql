-- Erasure of the texts in files of the archive, and the time for which restored events stay.

-- Time at which texts in the file were masked, and the reason of the last erasure. NULL: never.
ALTER TABLE outbox_archive_files ADD COLUMN erased_time TEXT;
ALTER TABLE outbox_archive_files ADD COLUMN erased_reason TEXT;

-- A row is a file that may exist and that no row of `outbox_archive_files` names: WRITING is about to be recorded, OBSOLETE is
-- about to be removed. So no file remains unknown after an interruption.
CREATE TABLE outbox_archive_unrecorded (
    name        TEXT NOT NULL PRIMARY KEY,
    state       TEXT NOT NULL CHECK (state IN ('WRITING', 'OBSOLETE')),
    create_time TEXT NOT NULL
) STRICT;

-- Time at which the row returned from the archive. NULL: it was never there.
-- `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', restored_time TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT restored_time FROM outbox_events LIMIT 0;
