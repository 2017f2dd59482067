-- Operators' looks are in the audit log too: how many rows one showed, or chose to change.

ALTER TABLE audit_log ADD COLUMN matched BIGINT NOT NULL DEFAULT 0 CHECK (matched >= 0);

-- Changes are found among them without reading those.
ALTER TABLE audit_log ADD COLUMN is_change BIGINT GENERATED ALWAYS AS (CASE WHEN changed > 0 THEN 1 ELSE 0 END) STORED;
CREATE INDEX idx_audit_changes ON audit_log (tenant_id, is_change, id);
