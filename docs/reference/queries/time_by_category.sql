-- Where the time of spans went: the table Categories of trainspan trace summary.
-- self is the time of a span without what began later on its lane: each span says
-- what it is inside of and which spans it outlasts, so no join of spans is needed.
WITH spans AS (
    SELECT * FROM events WHERE ph = 'X'
),
own AS (
    SELECT run, cat, name, count(*) AS spans, sum(dur_us) AS total_us, max(dur_us) AS max_us
    FROM spans
    GROUP BY run, cat, name
),
inside AS (
    SELECT run, cat, name, sum(us) AS inside_us
    FROM (
        SELECT run, outer_cat AS cat, outer_name AS name, dur_us - coalesce(list_sum([o.us FOR o IN outlasts]), 0) AS us
        FROM spans
        WHERE outer_name IS NOT NULL
        UNION ALL
        SELECT run, o.cat, o.name, o.us FROM (SELECT run, unnest(outlasts) AS o FROM spans)
    )
    GROUP BY run, cat, name
)
SELECT
    run,
    cat,
    sum(spans)::BIGINT AS spans,
    sum(total_us)::BIGINT AS total_us,
    sum(total_us - coalesce(inside_us, 0))::BIGINT AS self_us,
    max(max_us)::BIGINT AS max_us
FROM own
LEFT JOIN inside USING (run, cat, name)
GROUP BY run, cat
ORDER BY run, self_us DESC, cat;
