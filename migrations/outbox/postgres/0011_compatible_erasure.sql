-- Erasure of the texts about a person.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Time at which texts of the row were masked. NULL: never.
ALTER TABLE outbox_events ADD COLUMN erased_time TIMESTAMPTZ(6);

-- The only change of an audit entry is that its reason is masked. `is_change` is computed after this trigger.
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
    RAISE EXCEPTION 'the audit log is append-only';
END;
$$;

-- The details of the history are masked, too. Nothing else of it changes: the roles that add rows may change this column.
DO $$
DECLARE
    other name;
BEGIN
    FOR other IN SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name = 'outbox_history' AND privilege_type = 'INSERT'
        AND grantee NOT IN (current_user, 'PUBLIC')
    LOOP
        EXECUTE format('GRANT UPDATE (detail) ON outbox_history TO %I', other);
    END LOOP;
END;
$$;
