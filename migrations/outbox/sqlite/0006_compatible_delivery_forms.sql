-- Content of the bodies of webhook deliveries.

-- Content of the body: THIN, FULL or UNMASKED. NULL in rows of processes without this column: such a body is treated like
-- an unmasked one.
ALTER TABLE webhook_deliveries ADD COLUMN body_form TEXT;
