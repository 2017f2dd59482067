-- Operators' looks are in the audit log too: how many rows one showed, or chose to change.

ALTER TABLE audit_log ADD COLUMN matched INTEGER NOT NULL DEFAULT 0 CHECK (matched >= 0);

-- Changes are found among them without reading those.
ALTER TABLE audit_log ADD COLUMN is_change INTEGER GENERATED ALWAYS AS (changed > 0) VIRTUAL;
CREATE INDEX idx_audit_changes ON audit_log (tenant_id, is_change, id);
