-- Erasure of the texts in files of the archive, and the time for which restored events stay. `0001_baseline.sql` explains the
-- collation and the form of statements.

-- Time at which texts in the file were masked, and the reason of the last erasure. NULL: never.
ALTER TABLE outbox_archive_files ADD COLUMN erased_time DATETIME(6), ADD COLUMN erased_reason TEXT;

-- A row is a file that may exist and that no row of `outbox_archive_files` names: WRITING is about to be recorded, OBSOLETE is
-- about to be removed. So no file remains unknown after an interruption.
CREATE TABLE outbox_archive_unrecorded (
    name        VARCHAR(255) NOT NULL PRIMARY KEY,
    state       VARCHAR(16) NOT NULL,
    create_time DATETIME(6) NOT NULL,
    CONSTRAINT ck_outbox_archive_unrecorded CHECK (state IN ('WRITING', 'OBSOLETE'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- Time at which the row returned from the archive. NULL: it was never there. INSTANT changes no row.
ALTER TABLE outbox_events ADD COLUMN restored_time DATETIME(6), ALGORITHM = INSTANT;
