-- Gives back what take.sql took, if nobody has asked for the lock since. No row is the answer otherwise; then
-- dlock.release_3 decides.
-- $1 name, $2 owner token, $3 COMMAND's exit code; below 0: there is none
UPDATE dlock.lock l SET alone = '', ended = ($2::text || l.ended)[1:20], held_us = l.held_us + greatest(0, t.now - l.since),
  last_run = CASE WHEN $3::int < 0 THEN l.last_run ELSE concat_ws('|', l.since, t.now, $3::int, l.owner) END,
  last_success = CASE WHEN $3::int = 0 THEN concat_ws('|', l.since, t.now, 0, l.owner) ELSE l.last_success END
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint) AS t(now)
WHERE l.name = $1 AND l.alone = $2
RETURNING 'released' AS result, CASE WHEN granted = 1 THEN dlock.forget() END
