-- Which rank holds the others up: it computes long and waits little in
-- collectives. The columns are those of trainspan trace summary for each rank: a moment
-- counts once, however many spans it is in, and comm_stall is communication while
-- nothing was computed. Ranks with kernels of a PyTorch profile (category PP) are
-- left to trainspan trace summary, which knows what their devices did.
--
-- A span adds what of its time lies behind the end of all that began before it: of
-- its own kind, and of both. So one pass over the spans of a process is enough.
WITH spans AS (
    SELECT
        run, rank, attempt, host, pid, ts_us AS from_us, ts_us + dur_us AS to_us,
        class IN ('forward', 'backward', 'optimizer', 'compute') AS computes,
        class = 'collective' AS communicates
    FROM events
    WHERE ph = 'X'
),
before AS (
    SELECT
        run, rank, attempt, host, pid, from_us, to_us, computes,
        coalesce(max(to_us) FILTER (computes) OVER earlier, from_us) AS computed_us,
        coalesce(max(to_us) FILTER (communicates) OVER earlier, from_us) AS communicated_us
    FROM spans
    WHERE computes OR communicates
    WINDOW earlier AS (PARTITION BY run, rank, attempt, host, pid ORDER BY from_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
used AS (
    SELECT
        run, rank, attempt, host, pid,
        coalesce(sum(greatest(to_us - greatest(from_us, computed_us), 0)) FILTER (computes), 0)::BIGINT AS compute_us,
        coalesce(sum(greatest(to_us - greatest(from_us, communicated_us), 0)) FILTER (NOT computes), 0)::BIGINT AS comm_us,
        sum(greatest(to_us - greatest(from_us, computed_us, communicated_us), 0))::BIGINT AS either_us
    FROM before
    GROUP BY run, rank, attempt, host, pid
),
lived AS (
    SELECT run, rank, attempt, host, pid, count(*) AS spans, max(to_us) - min(from_us) AS wall_us
    FROM spans
    GROUP BY run, rank, attempt, host, pid
)
SELECT
    run, rank, attempt, host, pid, spans, wall_us,
    coalesce(compute_us, 0) AS compute_us,
    coalesce(comm_us, 0) AS comm_us,
    coalesce(either_us - compute_us, 0) AS comm_stall_us
FROM lived
LEFT JOIN used USING (run, rank, attempt, host, pid)
ORDER BY run, attempt, comm_stall_us::DOUBLE / greatest(wall_us, 1), compute_us DESC;
