-- Run as an administrator after `handover migrate`, and again after an upgrade: mysql < .deploy/mysql-rights.sql
-- handover can change neither the tables nor the audit log.
GRANT SELECT ON handover._sqlx_migrations TO 'handover'@'%';
GRANT SELECT, INSERT ON handover.audit_log TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.products TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.orders TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.payments TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_events TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.event_consume_log TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.consumer_subscriptions TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.outbox_partitions TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.relays TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.id_blocks TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.dead_letters TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.listings TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.listing_changes TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.shipments TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.broker_queues TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.broker_bindings TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.broker_sessions TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.broker_messages TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.notifications TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.buyer_credit_changes TO 'handover'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON handover.buyer_credit TO 'handover'@'%';
