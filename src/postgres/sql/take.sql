-- Takes an exclusive lock of which the server has nothing but its row: no holder, no waiter. No row is the
-- answer otherwise; then dlock.acquire_1 decides. In plain SQL, since plpgsql costs a fresh session more than
-- all the rest. The row's lock is the mutex: ON CONFLICT looks at the row as it is once it has that. It goes
-- before the settings, so it takes nothing where a grant might be forgotten, or from a pooler.
-- $1 name, $2 owner token, $3 owner, $4 TTL in ms, $5 detached, $6 the session's process
WITH mine AS (
  INSERT INTO dlock.lock AS l (name, fence, granted, alone)
  SELECT $1, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint, 1, $2
  WHERE pg_catalog.pg_backend_pid() = $6::int
    AND pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local')
  ON CONFLICT (name) DO UPDATE SET fence = greatest(l.fence + 1, excluded.fence), granted = l.granted + 1, alone = $2
    WHERE l.alone = '' AND $2 <> ALL (l.ended)
  RETURNING fence, granted, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint AS now)
INSERT INTO dlock.holder
SELECT $1, $2, 'x', $3, now, now + $4::bigint * 1000, $4::bigint, fence, NULL, 'held', $5::boolean FROM mine
RETURNING 'granted' AS result, fence, 0 AS ticket, 0 AS session, (SELECT granted = 1 FROM mine) AS is_new
