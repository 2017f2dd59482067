-- Run as an administrator after `handover migrate`, and again after an upgrade: mysql < .deploy/mysql-rights.sql
-- These rights allow the user 'handover' to change neither the schema nor existing rows of the audit log and the
-- ledger. It may delete entries of the audit log that the view shows: of reads, older than six days. `handover erase` masks texts in the audit log, too: run it as the owner of the tables.
GRANT SELECT ON handover.outbox_migrations TO 'handover'@'%';
GRANT SELECT ON handover.marketplace_migrations TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.outbox_audit_log TO 'handover'@'%';
GRANT SELECT, DELETE ON handover.outbox_old_audit_reads TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.products TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.orders TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.payments TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_events TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.outbox_history TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.event_consume_log TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_consumer_subscriptions TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_consumer_types TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_sequences TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE ON handover.outbox_archive_files TO 'handover'@'%';
GRANT SELECT, INSERT, DELETE ON handover.outbox_archived_events TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_archive_unrecorded TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_partitions TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_relays TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_leaders TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_alerts TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_process_reports TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_stat_samples TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_jobs TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.webhook_endpoints TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.webhook_deliveries TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.webhook_attempts TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.id_blocks TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.dead_letters TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.listings TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.listing_changes TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.shipments TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_broker_queues TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_broker_bindings TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_broker_sessions TO 'handover'@'%';
GRANT SELECT, UPDATE ON handover.outbox_broker_counter TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_broker_messages TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.notifications TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.buyer_credit_changes TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.buyer_credit TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.asset_operations TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.ledger_entries TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.coupons TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.asset_holds TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.asset_balances TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.refunds TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.refund_attempts TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.payment_captures TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.gateway_reports TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE ON handover.reconciliation_findings TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE ON handover.invoices TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.invoice_lines TO 'handover'@'%';
GRANT SELECT ON handover.invoice_start TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.idempotency_keys TO 'handover'@'%';
-- The metrics show the age of the oldest transaction and the history list length. This right shows the statements of other users,
-- too; without it the two metrics are absent.
GRANT PROCESS ON *.* TO 'handover'@'%';
