-- Erasure of the texts about a person. `0001_baseline.sql` explains the collation and the form of statements.

-- Time at which texts of the row were masked. NULL: never. INSTANT changes no row.
ALTER TABLE outbox_events ADD COLUMN erased_time DATETIME(6), ALGORITHM = INSTANT;
