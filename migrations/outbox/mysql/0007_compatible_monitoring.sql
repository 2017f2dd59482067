-- Alerts, reports of the processes, and statistics over time. `0001_baseline.sql` explains the collation and the form of
-- statements.

-- Interval of the job. NULL in rows of processes without this column: the runs of such a job are not watched. INSTANT
-- changes no row.
ALTER TABLE outbox_jobs ADD COLUMN interval_ms BIGINT, ALGORITHM = INSTANT;

-- A row is the state of one alert. It exists once the alert has started or was acknowledged.
CREATE TABLE outbox_alerts (
    alert              VARCHAR(64) NOT NULL PRIMARY KEY,
    -- Begin of the last period in which the alert was active, and its end; without an end it is active.
    started_time       DATETIME(6),
    ended_time         DATETIME(6),
    -- The value that was compared with the limit, in thousandths, and the labels of its metric.
    value_milli        BIGINT NOT NULL,
    subject            TEXT NOT NULL,
    acknowledged_until DATETIME(6),
    acknowledged_by    VARCHAR(255),
    reason             TEXT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is what one process reports about its last minutes, a JSON object. It counts until `alive_until`.
CREATE TABLE outbox_process_reports (
    process     VARCHAR(255) NOT NULL PRIMARY KEY,
    report      MEDIUMTEXT NOT NULL,
    alive_until DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;

-- A row is the mean and the highest value of one metric within a minute (`seconds` = 60) or ten (600), which begin at
-- `taken_time`, in thousandths.
CREATE TABLE outbox_stat_samples (
    seconds    BIGINT NOT NULL,
    taken_time DATETIME(6) NOT NULL,
    metric     VARCHAR(128) NOT NULL,
    labels     VARCHAR(255) NOT NULL,
    mean_milli BIGINT NOT NULL,
    max_milli  BIGINT NOT NULL,
    PRIMARY KEY (seconds, taken_time, metric, labels)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4
    COLLATE /*M! utf8mb4_nopad_bin *//*!80017 utf8mb4_0900_bin */;
