-- The tables of a data set in the folder lake. The folders are columns too:
-- run, ranks (of events) and hour (of events).
CREATE OR REPLACE VIEW events AS
SELECT * FROM read_parquet('lake/events/**/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW ledger AS
SELECT * FROM read_parquet('lake/ledger/**/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW steps AS
SELECT * FROM read_parquet('lake/steps/**/*.parquet', hive_partitioning = true);
