-- The runs of a data set, attempt by attempt: how long each was seen, on how many
-- hosts, and how many of its ranks are still missing. Attempt null are processes that
-- only helped a rank. It reads the index alone.
WITH found AS (
    SELECT run, attempt, unnest(ranks) AS rank FROM runs
),
ranks AS (
    SELECT run, attempt, count(DISTINCT rank) AS ranks FROM found GROUP BY run, attempt
),
hosts AS (
    SELECT run, attempt, count(DISTINCT host) AS hosts FROM (SELECT run, attempt, unnest(hosts) AS host FROM runs) GROUP BY run, attempt
)
SELECT
    r.run,
    r.attempt,
    any_value(r.job_id) AS job_id,
    min(epoch_us(r.ts)) AS first_us,
    max(epoch_us(r.ended)) AS last_us,
    count(*) AS parts,
    coalesce(any_value(ranks.ranks), 0) AS ranks,
    max(r.world_size) - coalesce(any_value(ranks.ranks), 0) AS missing_ranks,
    any_value(hosts.hosts) AS hosts,
    sum(r.events)::BIGINT AS events
FROM runs AS r
LEFT JOIN ranks ON ranks.run = r.run AND ranks.attempt IS NOT DISTINCT FROM r.attempt
LEFT JOIN hosts ON hosts.run = r.run AND hosts.attempt IS NOT DISTINCT FROM r.attempt
GROUP BY r.run, r.attempt
ORDER BY r.run, r.attempt;
