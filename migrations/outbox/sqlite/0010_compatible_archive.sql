-- Archive of settled events.

-- A row is a file of the archive. It is inserted once the file is stored durably and before the first of its events leaves
-- the table `outbox_events`.
CREATE TABLE outbox_archive_files (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL UNIQUE,
    events      INTEGER NOT NULL,
    records     INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    first_id    INTEGER NOT NULL,
    last_id     INTEGER NOT NULL,
    create_time TEXT NOT NULL,
    -- Time at which all events of the file had left `outbox_events`, apart from those that changed. NULL: not yet.
    done_time   TEXT
) STRICT;

-- A row is an event that is in the archive and not in `outbox_events`: the sequence of its aggregate continues after
-- it, and a late message of it is a duplicate. `id` is its id in `outbox_events`.
CREATE TABLE outbox_archived_events (
    id             INTEGER PRIMARY KEY,
    event_id       TEXT NOT NULL,
    event_type     TEXT NOT NULL,
    tenant_id      INTEGER NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id   INTEGER NOT NULL,
    aggregate_key  TEXT,
    aggregate_seq  INTEGER NOT NULL,
    create_time    TEXT NOT NULL,
    file_id        INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_outbox_archived ON outbox_archived_events (event_id);
CREATE INDEX idx_outbox_archived ON outbox_archived_events (aggregate_type, aggregate_id, tenant_id, aggregate_seq);
