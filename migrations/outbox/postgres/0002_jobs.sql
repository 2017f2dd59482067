-- Leader leases and the records of periodic jobs.

-- A row is a leader lease: one process at a time runs the jobs of the leader. The low fillfactor leaves space on each
-- page for HOT updates, because the leader renews its lease continuously.
CREATE TABLE outbox_leaders (
    name        VARCHAR(255) COLLATE "C" PRIMARY KEY,
    leader      VARCHAR(255) COLLATE "C",
    epoch       BIGINT NOT NULL DEFAULT 0,
    lease_until TIMESTAMPTZ(6)
) WITH (fillfactor = 10);

-- A row has the times of the last runs of one periodic job, of all processes together.
CREATE TABLE outbox_jobs (
    job               VARCHAR(255) COLLATE "C" PRIMARY KEY,
    last_run_time     TIMESTAMPTZ(6) NOT NULL,
    last_success_time TIMESTAMPTZ(6)
) WITH (fillfactor = 10);
