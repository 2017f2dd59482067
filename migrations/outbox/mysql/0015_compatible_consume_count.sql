-- No query uses this index any more: applied events are counted among the newest records only.
DROP INDEX idx_consume_count ON event_consume_log;
