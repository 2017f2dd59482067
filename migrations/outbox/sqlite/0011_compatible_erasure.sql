-- Erasure of the texts about a person.

-- Time at which texts of the row were masked. NULL: never.
-- `0003_compatible_event_types.sql` explains why there is no ALTER TABLE.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = substr(sql, 1, length(sql) - 8) || ', erased_time TEXT) STRICT'
WHERE type = 'table' AND name = 'outbox_events' AND sql LIKE '%) STRICT';
PRAGMA writable_schema = RESET;
SELECT erased_time FROM outbox_events LIMIT 0;

-- The only change of an audit entry is that its reason is masked. `is_change` is computed.
DROP TRIGGER outbox_audit_log_never_updated;
CREATE TRIGGER outbox_audit_log_never_updated BEFORE UPDATE ON outbox_audit_log
WHEN NEW.reason IS NOT '***' OR OLD.reason IS NULL OR NEW.id IS NOT OLD.id OR NEW.tenant_id IS NOT OLD.tenant_id
    OR NEW.actor IS NOT OLD.actor OR NEW.action IS NOT OLD.action OR NEW.selection IS NOT OLD.selection
    OR NEW.changed IS NOT OLD.changed OR NEW.matched IS NOT OLD.matched OR NEW.trace_id IS NOT OLD.trace_id
    OR NEW.create_time IS NOT OLD.create_time
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
