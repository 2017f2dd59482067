-- Operators' looks are in the audit log too: how many rows one showed, or chose to change.

ALTER TABLE audit_log ADD COLUMN matched BIGINT NOT NULL DEFAULT 0 CHECK (matched >= 0);

-- Changes are found among them without reading those.
ALTER TABLE audit_log ADD COLUMN is_change BIGINT GENERATED ALWAYS AS (changed > 0) VIRTUAL;
ALTER TABLE audit_log ADD KEY idx_audit_changes (tenant_id, is_change, id);
