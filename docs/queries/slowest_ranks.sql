-- Which rank holds the others up: it computes long and waits little in
-- collectives. The columns are those of trainspan summary for each rank: a moment
-- counts once, however many spans it is in, and comm_stall is communication while
-- nothing was computed. Ranks with kernels of a PyTorch profile (category PP) are
-- left to trainspan summary, which knows what their devices did.
WITH spans AS (
    SELECT
        run, rank, attempt, host, pid, ts_us AS from_us, ts_us + dur_us AS to_us,
        CASE
            WHEN class IN ('forward', 'backward', 'optimizer', 'compute') THEN 'compute'
            WHEN class = 'collective' THEN 'comm'
        END AS class
    FROM events
    WHERE ph = 'X'
),
edges AS (
    SELECT run, rank, attempt, host, pid, from_us AS at_us, (class = 'compute')::INT AS compute, (class = 'comm')::INT AS comm
    FROM spans WHERE class IS NOT NULL
    UNION ALL
    SELECT run, rank, attempt, host, pid, to_us, -(class = 'compute')::INT, -(class = 'comm')::INT
    FROM spans WHERE class IS NOT NULL
),
pieces AS (
    SELECT
        run, rank, attempt, host, pid,
        lead(at_us) OVER time - at_us AS length_us,
        sum(compute) OVER time AS computing,
        sum(comm) OVER time AS communicating
    FROM edges
    WINDOW time AS (PARTITION BY run, rank, attempt, host, pid ORDER BY at_us ROWS UNBOUNDED PRECEDING)
),
used AS (
    SELECT
        run, rank, attempt, host, pid,
        sum(length_us) FILTER (computing > 0) AS compute_us,
        sum(length_us) FILTER (communicating > 0) AS comm_us,
        sum(length_us) FILTER (communicating > 0 AND computing = 0) AS comm_stall_us
    FROM pieces
    GROUP BY run, rank, attempt, host, pid
),
lived AS (
    SELECT run, rank, attempt, host, pid, count(*) AS spans, max(to_us) - min(from_us) AS wall_us
    FROM spans
    GROUP BY run, rank, attempt, host, pid
)
SELECT
    run, rank, attempt, host, pid, spans, wall_us,
    coalesce(compute_us, 0)::BIGINT AS compute_us,
    coalesce(comm_us, 0)::BIGINT AS comm_us,
    coalesce(comm_stall_us, 0)::BIGINT AS comm_stall_us
FROM lived
LEFT JOIN used USING (run, rank, attempt, host, pid)
ORDER BY run, attempt, comm_stall_us::DOUBLE / greatest(wall_us, 1), compute_us DESC;
