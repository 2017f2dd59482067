-- Retention of audit entries of calls that only read.

-- The migration fails after two seconds if a long transaction has the table in use, and can be repeated: otherwise every other
-- statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';
CREATE INDEX idx_outbox_audit_reads ON outbox_audit_log (is_change, create_time);

-- Entries of changes stay. The shortest retention time of reads is seven days; a limit of six leaves a day for clocks that differ.
CREATE OR REPLACE FUNCTION outbox_audit_log_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.reason = '***' AND OLD.reason IS NOT NULL
            AND (NEW.id, NEW.tenant_id, NEW.actor, NEW.action, NEW.selection, NEW.changed, NEW.matched, NEW.trace_id, NEW.create_time)
              = (OLD.id, OLD.tenant_id, OLD.actor, OLD.action, OLD.selection, OLD.changed, OLD.matched, OLD.trace_id, OLD.create_time)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF OLD.is_change = 0 AND OLD.create_time < clock_timestamp() - INTERVAL '6 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only';
END;
$$;
