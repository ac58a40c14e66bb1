-- Training steps that took more than twice the median step of their run: rows of
-- trainspan steps.
WITH steps AS (
    SELECT run, attempt, rank, step, ts_us, dur_us, median(dur_us) OVER (PARTITION BY run) AS median_us
    FROM events
    WHERE ph = 'X' AND cat = 'pipeline' AND name = 'train.iteration'
)
SELECT run, attempt, step, rank, ts_us, dur_us, median_us, dur_us / median_us AS times
FROM steps
WHERE dur_us > 2 * median_us
ORDER BY run, times DESC, attempt, step, rank;
