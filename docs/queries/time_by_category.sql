-- Where the time of spans went: the table Categories of trainspan summary.
-- self is the time of a span without the spans directly inside of it on its
-- lane: each span says what it is inside of, so no join of spans is needed.
WITH spans AS (
    SELECT * FROM events WHERE ph = 'X'
),
own AS (
    SELECT run, cat, name, count(*) AS spans, sum(dur_us) AS total_us, max(dur_us) AS max_us
    FROM spans
    GROUP BY run, cat, name
),
inside AS (
    SELECT run, outer_cat AS cat, outer_name AS name, sum(dur_us) AS inside_us
    FROM spans
    WHERE outer_name IS NOT NULL
    GROUP BY run, outer_cat, outer_name
)
SELECT
    run,
    cat,
    sum(spans)::BIGINT AS spans,
    sum(total_us)::BIGINT AS total_us,
    sum(greatest(total_us - coalesce(inside_us, 0), 0))::BIGINT AS self_us,
    max(max_us)::BIGINT AS max_us
FROM own
LEFT JOIN inside USING (run, cat, name)
GROUP BY run, cat
ORDER BY run, self_us DESC, cat;
