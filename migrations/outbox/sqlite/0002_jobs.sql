-- Leader leases and the records of periodic jobs.

-- A row is a leader lease: one process at a time runs the jobs of the leader.
CREATE TABLE outbox_leaders (
    name        TEXT PRIMARY KEY,
    leader      TEXT,
    epoch       INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT
) STRICT;

-- A row has the times of the last runs of one periodic job, of all processes together.
CREATE TABLE outbox_jobs (
    job               TEXT PRIMARY KEY,
    last_run_time     TEXT NOT NULL,
    last_success_time TEXT
) STRICT;
