-- Jobs that do not keep up.

-- Begin of the first run since which every successful run has left work that was due. NULL: the last one left none.
ALTER TABLE outbox_jobs ADD COLUMN behind_since_time TEXT;
