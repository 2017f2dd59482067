-- Content of the bodies of webhook deliveries. `0001_baseline.sql` explains the form of statements.

-- Content of the body: THIN, FULL or UNMASKED. NULL in rows of processes without this column: such a body is treated like
-- an unmasked one. INSTANT changes no row.
ALTER TABLE webhook_deliveries ADD COLUMN body_form VARCHAR(16), ALGORITHM = INSTANT;
