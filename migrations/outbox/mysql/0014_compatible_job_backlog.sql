-- Jobs that do not keep up. `0001_baseline.sql` explains the form of statements.

-- Begin of the first run since which every successful run has left work that was due. NULL: the last one left none. INSTANT
-- changes no row.
ALTER TABLE outbox_jobs ADD COLUMN behind_since_time DATETIME(6), ALGORITHM = INSTANT;
