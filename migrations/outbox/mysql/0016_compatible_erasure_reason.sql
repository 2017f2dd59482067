-- Reason of the last erasure that masked texts of the row, as in `outbox_archive_files`. NULL: texts were never masked, or by a process
-- of an earlier version. INSTANT changes no row.
ALTER TABLE outbox_events ADD COLUMN erased_reason TEXT, ALGORITHM = INSTANT;
