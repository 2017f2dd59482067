-- Alerts, reports of the processes, and statistics over time.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Interval of the job. NULL in rows of processes without this column: the runs of such a job are not watched.
ALTER TABLE outbox_jobs ADD COLUMN interval_ms BIGINT;

-- A row is the state of one alert. It exists once the alert has started or was acknowledged.
CREATE TABLE outbox_alerts (
    alert              VARCHAR(64) COLLATE "C" PRIMARY KEY,
    -- Begin of the last period in which the alert was active, and its end; without an end it is active.
    started_time       TIMESTAMPTZ(6),
    ended_time         TIMESTAMPTZ(6),
    -- The value that was compared with the limit, in thousandths, and the labels of its metric.
    value_milli        BIGINT NOT NULL,
    subject            TEXT NOT NULL,
    acknowledged_until TIMESTAMPTZ(6),
    acknowledged_by    VARCHAR(255) COLLATE "C",
    reason             TEXT
);

-- A row is what one process reports about its last minutes, a JSON object. It counts until `alive_until`.
CREATE TABLE outbox_process_reports (
    process     VARCHAR(255) COLLATE "C" PRIMARY KEY,
    report      TEXT NOT NULL,
    alive_until TIMESTAMPTZ(6) NOT NULL
) WITH (fillfactor = 50);

-- A row is the mean and the highest value of one metric within a minute (`seconds` = 60) or ten (600), which begin at
-- `taken_time`, in thousandths.
CREATE TABLE outbox_stat_samples (
    seconds    BIGINT NOT NULL,
    taken_time TIMESTAMPTZ(6) NOT NULL,
    metric     VARCHAR(128) COLLATE "C" NOT NULL,
    labels     VARCHAR(255) COLLATE "C" NOT NULL,
    mean_milli BIGINT NOT NULL,
    max_milli  BIGINT NOT NULL,
    PRIMARY KEY (seconds, taken_time, metric, labels)
);
