-- Takes an exclusive lock of which the server has nothing but its row: no holder, no waiter. No row is the
-- answer otherwise; then dlock.acquire_3 decides. In plain SQL, since plpgsql costs a fresh session more than
-- all the rest, and on one table. The row's lock is the mutex: ON CONFLICT looks at the row as it is once it has
-- that. It takes nothing through a pooler.
-- $1 name, $2 owner token, $3 TTL in ms, $4 detached, $5 ticket, $6 the session's number, $7 owner, $8 the session's
-- process
INSERT INTO dlock.lock AS l (name, fence, granted, alone, owner, since, expires, ttl_ms, detached)
SELECT $1, now, 1, $2, $7, now, now + $3::bigint * 1000, $3::bigint, $4::boolean
FROM (SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000.0)::bigint AS now) AS t
WHERE pg_catalog.pg_backend_pid() = $8::int
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_description WHERE objoid = 'dlock.lock'::pg_catalog.regclass
    AND classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objsubid = 0 AND description <> 'dlock format 1')
ON CONFLICT (name) DO UPDATE SET fence = greatest(l.fence + 1, excluded.fence), granted = l.granted + 1, alone = $2,
  owner = $7, since = excluded.since, expires = excluded.expires, ttl_ms = excluded.ttl_ms, detached = excluded.detached
  WHERE l.alone = '' AND $2 <> ALL (l.ended)
RETURNING 'granted' AS result, fence, $5::bigint AS ticket, $6::int AS session
