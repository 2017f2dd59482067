-- Run once as an administrator, before the first `handover migrate`:
--   psql -U postgres -f .deploy/postgres-rights.sql
-- The role handover_owner owns the tables and migrates the schema. The service uses the role handover, which can change
-- neither the schema nor existing rows of the audit log and the ledger. The default privileges below include UPDATE and
-- DELETE of tables to which the service only adds rows; after `handover migrate` they can be withdrawn, as on MySQL:
--   REVOKE UPDATE, DELETE ON refund_attempts, webhook_attempts FROM handover;
--   GRANT UPDATE (error, response) ON webhook_attempts TO handover;
CREATE ROLE handover_owner LOGIN PASSWORD 'change-me';
CREATE ROLE handover LOGIN PASSWORD 'change-me';
-- The metrics show the age of the oldest transaction, also of those of other users. This right shows their statements, too.
GRANT pg_read_all_stats TO handover;
CREATE DATABASE handover OWNER handover_owner;
\connect handover
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO handover_owner;
GRANT USAGE ON SCHEMA public TO handover;
ALTER DEFAULT PRIVILEGES FOR ROLE handover_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO handover;
