-- The tables of a data set in the folder lake. The folders are columns too:
-- run, ranks (of events) and hour (of events). ts is a timestamp in UTC; ts_us and
-- start_ns are the same as integers.
CREATE OR REPLACE VIEW events AS
SELECT *, epoch_us(ts) AS ts_us FROM read_parquet('lake/events/**/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW ledger AS
SELECT *, 1000 * epoch_us(ts) AS start_ns FROM read_parquet('lake/ledger/**/*.parquet', hive_partitioning = true);

CREATE OR REPLACE VIEW steps AS
SELECT *, 1000 * epoch_us(ts) AS start_ns FROM read_parquet('lake/steps/**/*.parquet', hive_partitioning = true);

-- The index: a row for what one conversion wrote of an attempt.
CREATE OR REPLACE VIEW runs AS
SELECT * FROM read_parquet('lake/runs/**/*.parquet', hive_partitioning = true);
