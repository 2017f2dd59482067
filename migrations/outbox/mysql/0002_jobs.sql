-- Leader leases and the records of periodic jobs. `0001_baseline.sql` explains the collation and the form of statements.

-- A row is a leader lease: one process at a time runs the jobs of the leader.
CREATE TABLE outbox_leaders (
    name        VARCHAR(255) NOT NULL PRIMARY KEY,
    leader      VARCHAR(255),
    epoch       BIGINT NOT NULL DEFAULT 0,
    lease_until DATETIME(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row has the times of the last runs of one periodic job, of all processes together.
CREATE TABLE outbox_jobs (
    job               VARCHAR(255) NOT NULL PRIMARY KEY,
    last_run_time     DATETIME(6) NOT NULL,
    last_success_time DATETIME(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
