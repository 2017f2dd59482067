-- Alerts, reports of the processes, and statistics over time.

-- Interval of the job. NULL in rows of processes without this column: the runs of such a job are not watched.
ALTER TABLE outbox_jobs ADD COLUMN interval_ms INTEGER;

-- A row is the state of one alert. It exists once the alert has started or was acknowledged.
CREATE TABLE outbox_alerts (
    alert              TEXT PRIMARY KEY,
    -- Begin of the last period in which the alert was active, and its end; without an end it is active.
    started_time       TEXT,
    ended_time         TEXT,
    -- The value that was compared with the limit, in thousandths, and the labels of its metric.
    value_milli        INTEGER NOT NULL,
    subject            TEXT NOT NULL,
    acknowledged_until TEXT,
    acknowledged_by    TEXT,
    reason             TEXT
) STRICT;

-- A row is what one process reports about its last minutes, a JSON object. It counts until `alive_until`.
CREATE TABLE outbox_process_reports (
    process     TEXT PRIMARY KEY,
    report      TEXT NOT NULL,
    alive_until TEXT NOT NULL
) STRICT;

-- A row is the mean and the highest value of one metric within a minute (`seconds` = 60) or ten (600), which begin at
-- `taken_time`, in thousandths.
CREATE TABLE outbox_stat_samples (
    seconds    INTEGER NOT NULL,
    taken_time TEXT NOT NULL,
    metric     TEXT NOT NULL,
    labels     TEXT NOT NULL,
    mean_milli INTEGER NOT NULL,
    max_milli  INTEGER NOT NULL,
    PRIMARY KEY (seconds, taken_time, metric, labels)
) STRICT;
