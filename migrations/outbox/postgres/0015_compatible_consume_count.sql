-- An index that no query uses any more: applied events are counted among the newest records only.

-- `0011_compatible_erasure.sql` explains the timeout.
SET LOCAL lock_timeout = '2s';

DROP INDEX IF EXISTS idx_consume_count;
