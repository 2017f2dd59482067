-- Erasure of the texts in files of the archive, and the time for which restored events stay.

-- `0011_compatible_erasure.sql` explains the timeout.
SET LOCAL lock_timeout = '2s';

-- Time at which texts in the file were masked, and the reason of the last erasure. NULL: never.
ALTER TABLE outbox_archive_files ADD COLUMN erased_time TIMESTAMPTZ(6), ADD COLUMN erased_reason TEXT;

-- A row is a file that may exist and that no row of `outbox_archive_files` names: WRITING is about to be recorded, OBSOLETE is
-- about to be removed. So no file remains unknown after an interruption.
CREATE TABLE outbox_archive_unrecorded (
    name        VARCHAR(255) COLLATE "C" PRIMARY KEY,
    state       VARCHAR(16) COLLATE "C" NOT NULL
        CONSTRAINT ck_outbox_archive_unrecorded CHECK (state IN ('WRITING', 'OBSOLETE')),
    create_time TIMESTAMPTZ(6) NOT NULL
);

-- Time at which the row returned from the archive. NULL: it was never there.
ALTER TABLE outbox_events ADD COLUMN restored_time TIMESTAMPTZ(6);
