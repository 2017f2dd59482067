-- No query uses this index any more: applied events are counted among the newest records only.
DROP INDEX IF EXISTS idx_consume_count;
