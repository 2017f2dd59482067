-- Retention of audit entries of calls that only read.

CREATE INDEX idx_outbox_audit_reads ON outbox_audit_log (is_change, create_time);

-- Entries of changes stay. The shortest retention time of reads is seven days; a limit of six leaves a day for clocks that differ.
DROP TRIGGER outbox_audit_log_never_deleted;
CREATE TRIGGER outbox_audit_log_never_deleted BEFORE DELETE ON outbox_audit_log
WHEN OLD.is_change <> 0 OR OLD.create_time >= strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-6 days')
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
