-- Run once as an administrator, before the first `handover migrate`: mysql < .deploy/mysql-users.sql
-- The user 'handover_owner' migrates the schema. The service uses the user 'handover', whose rights are granted by
-- mysql-rights.sql.
CREATE DATABASE handover CHARACTER SET utf8mb4;
CREATE USER 'handover_owner'@'%' IDENTIFIED BY 'change-me';
CREATE USER 'handover'@'%' IDENTIFIED BY 'change-me';
GRANT ALL ON handover.* TO 'handover_owner'@'%';
