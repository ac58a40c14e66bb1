-- How much of the time of all ranks trained the model, attempt by attempt, and
-- what took most of the rest: the attempts of trainspan report. The table
-- ledger holds every nanosecond of every rank once. Attempt 0 is the time of a
-- rank before its first attempt, which is of none.
WITH spent AS (
    SELECT run, attempt, category, sum(dur_ns) AS ns
    FROM ledger
    WHERE attempt > 0
    GROUP BY run, attempt, category
)
SELECT
    run,
    attempt,
    coalesce(sum(ns) FILTER (category = 'productive'), 0)::BIGINT AS productive_ns,
    sum(ns)::BIGINT AS rank_time_ns,
    productive_ns / rank_time_ns AS goodput,
    arg_max(category, ns) FILTER (category <> 'productive') AS largest_loss,
    coalesce(max(ns) FILTER (category <> 'productive'), 0)::BIGINT AS largest_loss_ns
FROM spent
GROUP BY run, attempt
ORDER BY run, attempt;
