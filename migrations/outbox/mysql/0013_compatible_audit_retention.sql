-- Retention of audit entries of calls that only read. `0001_baseline.sql` explains the form of statements.

ALTER TABLE outbox_audit_log ADD KEY idx_outbox_audit_reads (is_change, create_time);

-- The entries that may be deleted: of calls that only read, and older than six days; the shortest retention time is seven days,
-- which leaves a day for clocks that differ. The user of the service may delete rows of this view, and none of the table: the view
-- has the rights of the user that creates it.
CREATE VIEW outbox_old_audit_reads AS
    SELECT id FROM outbox_audit_log WHERE is_change = 0 AND create_time < UTC_TIMESTAMP(6) - INTERVAL 6 DAY;
