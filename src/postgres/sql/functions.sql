-- The functions of version 1. A later version has other names, so that both may be in use.

CREATE OR REPLACE FUNCTION dlock.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint
$$;

-- Where a waiter stands: a point of priority counts as a minute.
CREATE OR REPLACE FUNCTION dlock.place_of(waiter dlock.waiter) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT waiter.ticket - waiter.priority * 60000000::bigint
$$;

-- Whether that process has the advisory lock of that key; null: any process.
CREATE OR REPLACE FUNCTION dlock.has_advisory(key bigint, process int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = (key >> 32 & 4294967295)::oid AND objid = (key & 4294967295)::oid AND pid = coalesce(process, pid)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()));
END $$;

-- Whether another session has that number: no try gets its lock. 1684826994 is dlck.
CREATE OR REPLACE FUNCTION dlock.lives(session int) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT NOT pg_try_advisory_xact_lock_shared(1684826994, session)
$$;

-- Takes a place in the queue. The session's number is its own for as long as it lives: it listens to the channel
-- of that number, and has the advisory lock. 0: it has none yet.
CREATE OR REPLACE FUNCTION dlock.queue(INOUT w dlock.waiter) LANGUAGE plpgsql AS $$
BEGIN
  IF w.session = 0 THEN
    LOOP
      w.session := nextval('dlock.session');
      EXIT WHEN pg_try_advisory_lock(1684826994, w.session);
    END LOOP;
    EXECUTE 'LISTEN dlock_' || w.session;
  END IF;
  INSERT INTO dlock.waiter SELECT w.*;
END $$;

-- Locks the row of a lock; makes it first if it is missing. From now on others than its holder may be there.
CREATE OR REPLACE FUNCTION dlock.enter(key text) RETURNS dlock.lock LANGUAGE plpgsql AS $$
DECLARE
  l dlock.lock;
BEGIN
  LOOP
    SELECT * INTO l FROM dlock.lock WHERE name = key FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO dlock.lock (name) VALUES (key) ON CONFLICT DO NOTHING;
  END LOOP;
  IF l.alone IS NOT NULL THEN
    UPDATE dlock.lock SET alone = NULL WHERE name = key;
    INSERT INTO dlock.holder SELECT key, l.alone, 'x', l.owner, l.since, l.expires, l.ttl_ms, l.fence, NULL, 'held',
      l.detached WHERE l.alone <> '';
  END IF;
  RETURN l;
END $$;

-- Whether another holder of that mode may stand beside those that there are.
CREATE OR REPLACE FUNCTION dlock.fits(key text, me text, want text, most int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN count(*) = 0 OR want <> 'x' AND bool_and(mode = want)
    AND (want = 's' OR count(*) < most)
  FROM dlock.holder WHERE name = key AND token <> me AND expires > dlock.now_us();
END $$;

-- Tells waiters of a lock, but for one token, to look: the eight that are next, and of the others ever fewer. The next
-- one looks in so many ms, and each other so many steps later. How many were told.
CREATE OR REPLACE FUNCTION dlock.tell_some(key text, but text, ms bigint, step int) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(pg_notify('dlock_' || w.session::text, (ms + step * (place - 1))::text)) FROM (SELECT q.session,
    row_number() OVER (ORDER BY dlock.place_of(q), q.ticket) AS place
    FROM dlock.waiter q WHERE q.name = key AND q.token <> but AND q.session > 0) AS w
    WHERE place <= 8 OR (place & (place - 1)) = 0
$$;

-- Hands the lock to the waiters that are next, for the time of a claim; false: to none. The dead are passed over.
-- The next one after them looks by itself when the claim must have come: a message says in how many ms. That one may
-- be dead, or stopped, as well. So once a second some behind it are told, too: the eight that are next, and of
-- the others ever fewer. They look after the last claim of that second began; and if it has not come, again.
CREATE OR REPLACE FUNCTION dlock.hand_on(key text, me text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  w dlock.waiter;
  handed boolean := false;
  fits boolean;
BEGIN
  FOR w IN SELECT * FROM dlock.waiter q WHERE name = key ORDER BY dlock.place_of(q), ticket LOOP
    IF w.token <> me AND NOT dlock.lives(w.session) THEN
      DELETE FROM dlock.waiter WHERE name = key AND token = w.token;
      CONTINUE;
    END IF;
    fits := NOT (handed AND w.mode = 'x') AND dlock.fits(key, w.token, w.mode, w.permits);
    IF (fits OR handed) AND w.token <> me THEN
      PERFORM pg_notify('dlock_' || w.session::text, CASE WHEN fits THEN '0' ELSE '1005' END);
    END IF;
    EXIT WHEN NOT fits;
    DELETE FROM dlock.waiter WHERE name = key AND token = w.token;
    DELETE FROM dlock.holder WHERE name = key AND (expires <= dlock.now_us() OR token = w.token);
    INSERT INTO dlock.holder VALUES (key, w.token, w.mode, w.owner, dlock.now_us(),
      dlock.now_us() + 1000000, w.ttl_ms, 0, NULL, 'handed', false);
    handed := true;
  END LOOP;
  IF handed THEN
    UPDATE dlock.lock SET told = dlock.now_us() WHERE name = key AND abs(dlock.now_us() - told) > 900000;
    IF FOUND THEN
      PERFORM dlock.tell_some(key, me, 1005, 0);
    END IF;
  END IF;
  RETURN handed;
END $$;

-- Gives a holder of permits the lowest slot that no other has; what has expired may return as long as its row is
-- there. Null: it has another mode.
CREATE OR REPLACE FUNCTION dlock.take_slot(key text, me text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  taken int[] := ARRAY(SELECT h.slot FROM dlock.holder h WHERE name = key AND token <> me AND h.slot IS NOT NULL);
  seat int := 0;
BEGIN
  WHILE seat = ANY (taken) LOOP
    seat := seat + 1;
  END LOOP;
  UPDATE dlock.holder h SET slot = seat WHERE name = key AND token = me AND mode = 'p' RETURNING h.slot INTO seat;
  RETURN seat;
END $$;

-- The advisory lock that dlock_advisory= asks for; NULL: none.
CREATE OR REPLACE FUNCTION dlock.advisory_key(how text, name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN how = 'hashtext' THEN hashtext(name)::bigint ELSE how::bigint END
$$;

-- Whether users of advisory locks leave the lock to us; if so, this session has theirs, once: it would be
-- counted. True if none are asked for.
CREATE OR REPLACE FUNCTION dlock.take_advisory(key bigint, want text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN key IS NULL OR dlock.has_advisory(key, pg_backend_pid()) THEN true
    WHEN want = 'x' THEN pg_try_advisory_lock(key) ELSE pg_try_advisory_lock_shared(key) END
$$;

-- Takes the lock, claims what was handed over, or queues for it. place: its ticket from an earlier answer; 0:
-- none. held: a line "TOKEN NAME" for each lock that it runs under. ms: since when it is held, or was done.
-- rank: how many are before it; granted: its slot, with permits.
-- result: granted, busy, already, or ended.
CREATE OR REPLACE FUNCTION dlock.acquire_3(key text, me text, who text, ttl bigint, detach boolean, want text, most int,
  place bigint, points int, cooldown_ms bigint, once_id text, held text, queues boolean,
  own_session int, advisory bigint,
  OUT result text, OUT fence bigint, OUT ticket bigint, OUT session int, OUT rank int, OUT left_us bigint,
  OUT holder text, OUT owner text, OUT ms bigint,
  OUT is_foreign boolean, OUT is_unclaimed boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  l dlock.lock;
  free boolean;
  asked dlock.waiter;
  now bigint;
  done bigint;
  under text[];
BEGIN
  session := own_session;
  IF place > 0 AND once_id = '' AND cooldown_ms = 0 AND advisory IS NULL THEN -- a claim: all that are behind it wait
    SELECT * INTO l FROM dlock.lock o WHERE o.name = key FOR UPDATE;
    now := dlock.now_us();
    fence := greatest(l.fence + 1, now);
    UPDATE dlock.holder o SET state = 'held', since = now, expires = now + ttl * 1000, ttl_ms = ttl,
      fence = acquire_3.fence, detached = detach
      WHERE o.name = key AND o.token = me AND o.state = 'handed' AND o.expires > now;
    IF FOUND THEN
      UPDATE dlock.lock u SET fence = acquire_3.fence, granted = u.granted + 1,
        waited_us = u.waited_us + greatest(0, now - place) WHERE u.name = key;
      ticket := place;
      rank := CASE WHEN want = 'p' THEN dlock.take_slot(key, me) END;
      result := 'granted';
      RETURN;
    END IF;
  END IF;
  l := dlock.enter(key);
  now := dlock.now_us();
  under := string_to_array(rtrim(held, E'\n'), E'\n');
  IF me = ANY (l.ended) THEN
    result := 'ended';
    RETURN;
  END IF;
  -- Its place, if it waited; a claim, or a grant of which it did not hear.
  DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
  DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me RETURNING o.expires > now INTO free;

  SELECT max(at) INTO done FROM (
    SELECT now WHERE abs(now - split_part(l.last_success, '|', 1)::bigint) < cooldown_ms * 1000
    UNION ALL
    SELECT at FROM dlock.once o WHERE o.name = key AND o.id = once_id AND o.expires > now) AS successes(at);
  IF done > 0 THEN
    PERFORM dlock.hand_on(key, '');
    result := 'already';
    owner := CASE WHEN done = now THEN l.last_success ELSE done::text END;
    fence := now;
    RETURN;
  END IF;

  ticket := CASE WHEN place = 0 AND free IS NOT TRUE THEN greatest(l.ticket + 1, now) ELSE place END;
  asked := (key, me, want, most, who, ticket, points, ttl, under, own_session);
  IF free IS NOT TRUE
    AND (EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key) OR NOT dlock.fits(key, me, want, most)) THEN
    asked := CASE WHEN queues THEN dlock.queue(asked) ELSE asked END;
    PERFORM dlock.hand_on(key, me);
    DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me RETURNING true INTO free;
  END IF;
  -- All that were ahead may have turned out to be dead.
  free := free IS TRUE OR NOT EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key) AND dlock.fits(key, me, want, most);

  IF free AND dlock.take_advisory(advisory, want) THEN
    fence := greatest(l.fence + 1, now);
    DELETE FROM dlock.holder o WHERE o.name = key AND o.expires <= now;
    INSERT INTO dlock.holder VALUES (key, me, want, who, now, now + ttl * 1000, ttl, fence, NULL, 'held', detach);
    UPDATE dlock.lock u SET fence = acquire_3.fence, granted = u.granted + 1,
      ticket = greatest(u.ticket, acquire_3.ticket), keep_us = greatest(u.keep_us, cooldown_ms * 1000),
      waited_us = u.waited_us + CASE WHEN place = 0 THEN 0 ELSE greatest(0, now - place) END
      WHERE u.name = key;
    session := asked.session;
    rank := CASE WHEN want = 'p' THEN dlock.take_slot(key, me) END;
    result := 'granted';
    RETURN;
  END IF;

  result := 'busy';
  fence := l.fence;
  is_foreign := free;
  IF free AND queues THEN
    asked := dlock.queue(asked);
  END IF;
  session := asked.session;
  UPDATE dlock.lock u SET contended = u.contended + 1, ticket = greatest(u.ticket, acquire_3.ticket)
    WHERE u.name = key AND place = 0;
  SELECT CASE WHEN o.state = 'kept' THEN '' ELSE o.token END, o.owner, greatest(0, now - o.since) / 1000, CASE WHEN want = 'p' THEN o.expires ELSE max(o.expires) OVER () END - now,
    o.state = 'handed' INTO holder, owner, ms, left_us, is_unclaimed FROM dlock.holder o WHERE o.name = key AND o.expires > now ORDER BY o.expires LIMIT 1;
  SELECT CASE WHEN queues THEN count(*) ELSE -1 END INTO rank FROM dlock.waiter w
    WHERE w.name = key AND (dlock.place_of(w), w.ticket) < (dlock.place_of(asked), asked.ticket);
END $$;

-- What is left of --at-least of a detached lock, in ms; below 1: nothing.
CREATE OR REPLACE FUNCTION dlock.rest_of(h dlock.holder, now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(substring(h.owner from E'\tleast=([0-9]+)')::bigint - (now - h.since) / 1000, 0)
$$;

-- The lock ends in so many ms, sooner than the waiters know. Each that is told looks a little later than the one before
-- it, which may be dead.
CREATE OR REPLACE FUNCTION dlock.tell_end(key text, ms bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT dlock.tell_some(key, '', ms + 5, 50)
$$;

-- A share is gone that would have lasted until then. Those that are left may be of the dead, which nobody else tells of.
CREATE OR REPLACE FUNCTION dlock.tell_rest(key text, until bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT dlock.tell_end(key, (h.last - dlock.now_us()) / 1000)
    FROM (SELECT max(expires) AS last FROM dlock.holder WHERE name = key) AS h
    WHERE h.last BETWEEN dlock.now_us() AND until
$$;

-- Extends a lease. by_token: only that of a detached lock, which this may shorten; ttl 0: by as much as it was
-- acquired for. result: extended, again (it had expired, and none has come since), or denied.
CREATE OR REPLACE FUNCTION dlock.renew_2(key text, me text, ttl bigint, by_token boolean, advisory bigint,
  OUT result text, OUT ttl_ms bigint, OUT fence bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  h dlock.holder;
  now bigint;
BEGIN
  PERFORM dlock.enter(key) FROM dlock.lock WHERE name = key; -- and makes no row for a renewal
  now := dlock.now_us();
  SELECT * INTO h FROM dlock.holder o WHERE o.name = key AND o.token = me AND o.state = 'held'
    AND (o.detached AND o.expires > now OR NOT by_token);
  result := 'denied';
  IF h.name IS NULL THEN
    UPDATE dlock.lock u SET lost = u.lost + 1 WHERE u.name = key AND NOT by_token;
    RETURN;
  END IF;
  ttl_ms := ttl;
  IF by_token THEN
    ttl_ms := CASE WHEN ttl = 0 THEN coalesce(substring(h.owner from E'\tttl=([0-9]+)')::bigint, h.ttl_ms) ELSE ttl END;
    ttl_ms := greatest(ttl_ms, dlock.rest_of(h, now));
    PERFORM dlock.tell_end(key, ttl_ms) WHERE now + ttl_ms * 1000 < h.expires;
  END IF;
  fence := h.fence;
  result := CASE WHEN h.expires > now THEN 'extended' ELSE 'again' END;
  UPDATE dlock.holder o SET expires = greatest(CASE WHEN NOT by_token THEN o.expires END, now + renew_2.ttl_ms * 1000)
    WHERE o.name = key AND o.token = me;
  -- A new session has to take the advisory lock anew; the old one may still have it.
  PERFORM dlock.take_advisory(advisory, h.mode);
END $$;

-- Gives back whatever the token has: the lock, or a place in the queue; then hands on. keep_ms > 0: lets the
-- lock expire then; by_token its record says when. code: COMMAND's exit code; below 0: there is none. granted_fence: the fencing token that is known; 0: none. result: released, gone, lost, or
-- denied.
CREATE OR REPLACE FUNCTION dlock.release_3(key text, me text, code int, keep_ms bigint, granted_fence bigint,
  by_token boolean, once_id text, once_ms bigint, advisory bigint,
  OUT result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  l dlock.lock := dlock.enter(key);
  h dlock.holder;
  now bigint := dlock.now_us();
  run text;
BEGIN
  SELECT * INTO h FROM dlock.holder o WHERE o.name = key AND o.token = me
    AND (o.detached AND o.expires > now OR NOT by_token);
  result := 'released';
  IF by_token THEN
    keep_ms := dlock.rest_of(h, now);
  END IF;
  IF by_token AND (h.name IS NULL OR h.state = 'kept') THEN
    result := 'denied';
    RETURN;
  ELSIF me = ANY (l.ended) AND h.name IS NULL OR h.state = 'kept' THEN
    RETURN; -- repeated
  ELSIF h.name IS NULL THEN
    result := CASE WHEN granted_fence > 0 THEN 'lost' ELSE 'gone' END;
    DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
    UPDATE dlock.lock u SET timeouts = u.timeouts + 1 WHERE u.name = key AND FOUND;
  ELSIF keep_ms > 0 THEN
    UPDATE dlock.holder o SET state = 'kept', expires = now + keep_ms * 1000 WHERE o.name = key AND o.token = me;
    PERFORM dlock.tell_end(key, keep_ms);
  ELSE
    DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me;
  END IF;
  IF advisory IS NOT NULL AND h.name IS NOT NULL THEN
    PERFORM CASE WHEN h.mode = 'x' THEN pg_advisory_unlock(advisory) ELSE pg_advisory_unlock_shared(advisory) END;
  END IF;
  IF code = 0 AND result = 'released' AND once_id <> '' THEN
    DELETE FROM dlock.once o WHERE (o.name, o.id) IN
      (SELECT e.name, e.id FROM dlock.once e WHERE e.expires < now FOR UPDATE SKIP LOCKED);
    INSERT INTO dlock.once VALUES (key, once_id, now, now + once_ms * 1000)
      ON CONFLICT (name, id) DO UPDATE SET at = excluded.at, expires = excluded.expires;
  END IF;
  IF NOT dlock.hand_on(key, '') THEN
    PERFORM dlock.tell_rest(key, h.expires) WHERE h.mode = 's';
  ELSIF once_id = '' THEN -- the claim brings it to the disk
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  IF code = 0 AND result = 'released' THEN -- waiters that want no more than a success on record
    PERFORM pg_notify('dlock_' || w.session::text, '1') FROM dlock.waiter w
      WHERE w.name = key AND w.session > 0 AND w.owner LIKE E'%\tasks=1%';
  END IF;
  run := concat_ws('|', h.since, now, code, h.owner);
  UPDATE dlock.lock u SET ended = (me || u.ended)[1:20],
    held_us = u.held_us + CASE WHEN h.state = 'held' THEN greatest(0, now - h.since) ELSE 0 END,
    last_run = CASE WHEN code >= 0 AND result = 'released' THEN run ELSE u.last_run END,
    last_success = CASE WHEN code = 0 AND result = 'released' THEN run ELSE u.last_success END,
    alone = CASE WHEN NOT EXISTS (SELECT FROM dlock.holder o WHERE o.name = key)
      AND NOT EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key) THEN '' END WHERE u.name = key;
  IF l.granted = 1 THEN
    PERFORM dlock.forget();
  END IF;
END $$;

-- Forgets locks that were not used for a month, or for their longest cooldown. The first release of each new
-- lock looks at one page of the table, which so grows no further than what is in use asks for.
CREATE OR REPLACE FUNCTION dlock.forget() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  page bigint := floor(random() * pg_relation_size('dlock.lock') / current_setting('block_size')::int);
  old text[] := ARRAY(SELECT name FROM dlock.lock l WHERE ctid >= format('(%s,0)', page)::tid
    AND ctid < format('(%s,0)', page + 1)::tid AND greatest(fence, ticket, nullif(split_part(last_success, '|', 2), '')::bigint, expires) + keep_us < dlock.now_us() AND NOT EXISTS
    (SELECT FROM dlock.holder h WHERE h.name = l.name AND h.expires + l.keep_us > dlock.now_us()) FOR UPDATE SKIP LOCKED);
BEGIN
  DELETE FROM dlock.holder WHERE name = ANY (old);
  DELETE FROM dlock.waiter WHERE name = ANY (old);
  DELETE FROM dlock.lock WHERE name = ANY (old);
  RETURN '';
END $$;

-- Breaks the lock of any holder, or with a fence above 0 of the one that has it; a row for each that it had. A
-- claim is a waiter's.
CREATE OR REPLACE FUNCTION dlock.force_2(key text, only_fence bigint)
RETURNS TABLE (token text, owner text, ms bigint, left_ms bigint, detached boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  until bigint;
BEGIN
  PERFORM dlock.enter(key);
  SELECT max(o.expires) INTO until FROM dlock.holder o WHERE o.name = key AND only_fence IN (0, o.fence);
  RETURN QUERY SELECT o.token, o.owner, greatest(0, dlock.now_us() - o.since) / 1000, (o.expires - dlock.now_us()) / 1000, o.detached OR o.state = 'kept'
    FROM dlock.holder o WHERE o.name = key AND o.expires > dlock.now_us()
    AND o.state <> 'handed' AND only_fence IN (0, o.fence) ORDER BY o.since;
  DELETE FROM dlock.holder o WHERE o.name = key AND o.state <> 'handed' AND only_fence IN (0, o.fence);
  PERFORM dlock.tell_rest(key, until) WHERE NOT dlock.hand_on(key, '');
END $$;

-- Holders and waiters of a lock.
CREATE OR REPLACE FUNCTION dlock.owners_2(key text, OUT kind text, OUT place bigint, OUT mode text, OUT owner text,
  OUT priority int, OUT ms bigint, OUT ttl_ms bigint, OUT since bigint, OUT detached boolean, OUT token text, OUT held text)
RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
  SELECT 'h', o.expires, o.mode, o.owner, 0, greatest(0, dlock.now_us() - o.since) / 1000, (o.expires - dlock.now_us()) / 1000,
    o.since, o.detached, o.token, ''
  FROM (SELECT h.mode, h.owner, h.since, expires, h.detached, CASE WHEN state = 'kept' THEN '' ELSE h.token END AS token
    FROM dlock.holder h WHERE name = key UNION ALL
    SELECT 'x', l.owner, l.since, expires, l.detached, alone FROM dlock.lock l WHERE name = key AND alone <> '') o
  WHERE o.expires > dlock.now_us()
  UNION ALL
  SELECT 'w', dlock.place_of(w), w.mode, w.owner, w.priority, greatest(0, dlock.now_us() - w.ticket) / 1000, -1, w.ticket, false,
    w.token, array_to_string(w.held, E'\n')
  FROM dlock.waiter w WHERE w.name = key AND dlock.lives(w.session)
$$;
