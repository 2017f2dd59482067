-- Archive of settled events. `0001_baseline.sql` explains the collation and the form of statements.

-- A row is a file of the archive. It is inserted once the file is stored durably and before the first of its events leaves
-- the table `outbox_events`.
CREATE TABLE outbox_archive_files (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name        VARCHAR(255) NOT NULL,
    events      BIGINT NOT NULL,
    records     BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    sha256      VARCHAR(64) NOT NULL,
    first_id    BIGINT NOT NULL,
    last_id     BIGINT NOT NULL,
    create_time DATETIME(6) NOT NULL,
    -- Time at which all events of the file had left `outbox_events`, apart from those that changed. NULL: not yet.
    done_time   DATETIME(6),
    UNIQUE KEY uk_outbox_archive_file (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is an event that is in the archive and not in `outbox_events`: the sequence of its aggregate continues after
-- it, and a late message of it is a duplicate. `id` is its id in `outbox_events`.
CREATE TABLE outbox_archived_events (
    id             BIGINT NOT NULL PRIMARY KEY,
    event_id       VARCHAR(64) NOT NULL,
    event_type     VARCHAR(64) NOT NULL,
    tenant_id      BIGINT NOT NULL,
    aggregate_type VARCHAR(64) NOT NULL,
    aggregate_id   BIGINT NOT NULL,
    aggregate_key  VARCHAR(255),
    aggregate_seq  BIGINT NOT NULL,
    create_time    DATETIME(6) NOT NULL,
    file_id        BIGINT NOT NULL,
    UNIQUE KEY uk_outbox_archived (event_id),
    KEY idx_outbox_archived (aggregate_type, aggregate_id, tenant_id, aggregate_seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
