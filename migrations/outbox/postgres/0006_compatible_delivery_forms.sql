-- Content of the bodies of webhook deliveries.

-- ALTER TABLE locks the table for a moment, whatever its size. If a long transaction has the table in use, the migration
-- fails after two seconds and can be repeated: otherwise every other statement on the table would wait behind it.
SET LOCAL lock_timeout = '2s';

-- Content of the body: THIN, FULL or UNMASKED. NULL in rows of processes without this column: such a body is treated like
-- an unmasked one.
ALTER TABLE webhook_deliveries ADD COLUMN body_form VARCHAR(16) COLLATE "C";
