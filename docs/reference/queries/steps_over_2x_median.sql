-- Training steps that took more than twice the median step of their run: rows of
-- trainspan trace steps.
WITH times AS (
    SELECT *, median(dur_ns) OVER (PARTITION BY run) AS median_ns
    FROM steps
    WHERE dur_ns IS NOT NULL
)
SELECT run, attempt, step, rank, start_ns, dur_ns, median_ns, dur_ns / median_ns AS times
FROM times
WHERE dur_ns > 2 * median_ns
ORDER BY run, times DESC, attempt, step, rank;
