-- How long ranks waited for each other in the collectives of each process group,
-- and how long the transfers took. The last rank to arrive does not wait: of all
-- ranks in one collective the shortest time is the transfer, and what others
-- took beyond it is their wait. Collectives of one step meet in their order.
WITH spans AS (
    SELECT *, coalesce(pg, '') AS process_group, coalesce(rank::VARCHAR, host || ' ' || pid) AS who
    FROM events
    WHERE ph = 'X' AND class = 'collective' AND attempt IS NOT NULL AND step IS NOT NULL
),
collectives AS (
    SELECT
        run, attempt, who AS rank, process_group AS pg, name, step, dur_us,
        row_number() OVER (PARTITION BY run, attempt, who, process_group, name, step ORDER BY ts_us) AS nth
    FROM spans
),
met AS (
    SELECT *, min(dur_us) OVER (PARTITION BY run, attempt, pg, name, step, nth) AS transfer_us
    FROM collectives
)
SELECT
    run,
    pg,
    count(DISTINCT rank) AS ranks,
    count(*) AS collectives,
    sum(dur_us)::BIGINT AS total_us,
    sum(transfer_us)::BIGINT AS transfer_us,
    sum(dur_us - transfer_us)::BIGINT AS wait_us
FROM met
GROUP BY run, pg
ORDER BY run, wait_us DESC, pg;
