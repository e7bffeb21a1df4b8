-- The functions of version 1. A later version has other names, so that both may be in use.

CREATE OR REPLACE FUNCTION dlock.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Where a waiter stands: a point of priority counts as a minute.
CREATE OR REPLACE FUNCTION dlock.place_of(waiter dlock.waiter) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT waiter.ticket - waiter.priority * 60000000::bigint
$$;

-- Whether the session of that number lives: it has an advisory lock, for which it never waits. 1684826994
-- is dlck.
CREATE OR REPLACE FUNCTION dlock.lives(session int) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1684826994::oid
    AND objid = session::oid AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;

-- The number of this session, for as long as it lives: it listens to the channel of that number, and has the
-- advisory lock. 0: it has none yet.
CREATE OR REPLACE FUNCTION dlock.number_session(known int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := known;
BEGIN
  WHILE number = 0 LOOP
    number := nextval('dlock.session');
    IF NOT pg_try_advisory_lock(1684826994, number) THEN
      number := 0;
    END IF;
  END LOOP;
  IF known = 0 THEN
    EXECUTE 'LISTEN dlock_' || number;
  END IF;
  RETURN number;
END $$;

-- The channel on which that session listens.
CREATE OR REPLACE FUNCTION dlock.tell(session int, message text) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_notify('dlock_' || session, message)
$$;

-- Locks the row of a lock; makes it first if it is missing. Others than its holder may have come then.
CREATE OR REPLACE FUNCTION dlock.enter(key text) RETURNS dlock.lock LANGUAGE plpgsql AS $$
DECLARE
  found_ dlock.lock;
BEGIN
  LOOP
    SELECT * INTO found_ FROM dlock.lock WHERE name = key FOR UPDATE;
    IF found_.name IS NOT NULL THEN
      IF found_.alone IS NOT NULL THEN
        UPDATE dlock.lock SET alone = NULL WHERE name = key;
      END IF;
      RETURN found_;
    END IF;
    INSERT INTO dlock.lock (name) VALUES (key) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Whether another holder of that mode may stand beside those that there are. Holders inside one another
-- have one permit.
CREATE OR REPLACE FUNCTION dlock.fits(key text, me text, want text, most int) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT count(*) = 0 OR want <> 'x' AND bool_and(mode = want)
    AND (want = 's' OR count(DISTINCT coalesce(around, token)) < most)
  FROM dlock.holder WHERE name = key AND token <> me AND expires > dlock.now_us()
$$;

-- Hands the lock to the waiters that are next, for the time of a claim; the dead are passed over. Who is
-- next after them looks by itself when the claim must have come.
CREATE OR REPLACE FUNCTION dlock.hand_on(key text, me text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w dlock.waiter;
  handed boolean := false;
BEGIN
  FOR w IN SELECT * FROM dlock.waiter q WHERE name = key ORDER BY dlock.place_of(q), ticket LOOP
    IF w.token <> me AND NOT dlock.lives(w.session) THEN
      DELETE FROM dlock.waiter WHERE name = key AND token = w.token;
      CONTINUE;
    END IF;
    IF NOT dlock.fits(key, w.token, w.mode, w.permits) THEN
      IF handed THEN
        PERFORM dlock.tell(w.session, 'look 1005');
      END IF;
      EXIT;
    END IF;
    DELETE FROM dlock.waiter WHERE name = key AND token = w.token;
    DELETE FROM dlock.holder WHERE name = key AND (expires <= dlock.now_us() OR token = w.token);
    INSERT INTO dlock.holder VALUES (key, w.token, w.mode, w.owner, dlock.now_us(),
      dlock.now_us() + 1000000, w.ttl_ms, 0, NULL, 'handed', false);
    handed := true;
    IF w.token <> me THEN
      PERFORM dlock.tell(w.session, 'go');
    END IF;
  END LOOP;
END $$;

-- Whether users of advisory locks leave the lock to us; if so, we have theirs. True if none are asked for.
CREATE OR REPLACE FUNCTION dlock.take_advisory(key bigint, want text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN key IS NULL THEN true WHEN want = 'x' THEN pg_try_advisory_lock(key)
    ELSE pg_try_advisory_lock_shared(key) END
$$;

-- Whether waiting would never end: a holder of the lock, or of one that it waits for, and so on, waits
-- below one of `mine`. Two that wait at the same moment look one after the other. One that waits for a
-- permit is let in by any of its holders, so nothing is proved by it.
CREATE OR REPLACE FUNCTION dlock.is_in_circle(key text, want text, mine text[]) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  WITH RECURSIVE blocker(token) AS (
    SELECT coalesce(around, token) FROM dlock.holder
    WHERE name = key AND expires > dlock.now_us() AND want <> 'p'
    UNION
    SELECT coalesce(h.around, h.token) FROM blocker b
    JOIN dlock.waiter w ON b.token = ANY (w.held) AND w.mode <> 'p'
    JOIN dlock.holder h ON h.name = w.name AND h.expires > dlock.now_us()
  ) SELECT EXISTS (SELECT FROM blocker WHERE token = ANY (mine))
$$;

-- Who waits for what there (struct deadlock_path). There may be many ways round; the server looks for no more
-- than the first.
CREATE OR REPLACE FUNCTION dlock.circle(key text, mine text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
  WITH RECURSIVE blocker(token, seen, path) AS (
    SELECT coalesce(around, token), ARRAY[key], substr(key, 6) FROM dlock.holder
    WHERE name = key AND expires > dlock.now_us()
    UNION ALL
    SELECT coalesce(h.around, h.token), b.seen || w.name, b.path || ' is held by ' ||
      regexp_replace(b.token, ':[^:]*$', '') || ', which waits for ' || substr(w.name, 6) || ', which'
    FROM blocker b
    JOIN dlock.waiter w ON b.token = ANY (w.held) AND w.mode <> 'p' AND w.name <> ALL (b.seen)
    JOIN dlock.holder h ON h.name = w.name AND h.expires > dlock.now_us()
  ) SELECT path FROM blocker WHERE token = ANY (mine) LIMIT 1
$$;

-- Takes the lock, claims what was handed over, or queues for it. asked: the request, with the fields of
-- dlock.waiter and dlock.holder. place: its ticket from an earlier answer; 0: none. outer_tokens: the owner
-- tokens under which it runs, with blanks between them. held: a line for each lock that it runs under; the
-- first word is the owner token. ms: since when it is held, or was done. result: granted, busy, already, within, mode s or
-- mode p (the outer's, into which this one does not go), circle (owner: what dlock.circle says), or ended.
CREATE OR REPLACE FUNCTION dlock.acquire_1(key text, me text, want text, most int, ttl bigint, place bigint,
  points int, who text, cooldown_ms bigint, once_id text, outer_tokens text, held text, queues boolean,
  own_session int, detach boolean, for_hold boolean, advisory bigint,
  OUT result text, OUT fence bigint, OUT ticket bigint, OUT session int, OUT rank int, OUT left_us bigint,
  OUT holder text, OUT owner text, OUT ms bigint, OUT whole boolean, OUT covered boolean, OUT is_foreign boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  l dlock.lock := dlock.enter(key);
  h dlock.holder;
  mine dlock.holder;
  now bigint := dlock.now_us();
  done bigint;
  outers text[] := string_to_array(outer_tokens, ' ');
  under text[] := ARRAY(SELECT split_part(line, ' ', 1) FROM string_to_table(held, E'\n') AS line WHERE line <> '');
BEGIN
  session := own_session;
  is_foreign := false;
  IF me = ANY (l.ended) THEN
    result := 'ended';
    RETURN;
  END IF;

  SELECT max(at) INTO done FROM (
    SELECT l.success WHERE abs(now - l.success) < cooldown_ms * 1000
    UNION ALL
    SELECT at FROM dlock.once o WHERE o.name = key AND o.id = once_id AND o.expires > now) AS successes(at);
  IF done > 0 THEN
    DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
    DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me;
    PERFORM dlock.hand_on(key, '');
    result := 'already';
    ms := (now - done) / 1000;
    RETURN;
  END IF;

  -- An environment may travel to another host or survive a boot. No process renews a detached lock, or one
  -- that is kept, for what runs below it.
  SELECT * INTO h FROM dlock.holder o WHERE o.name = key AND o.expires > now AND o.token <> me
    AND o.state = 'held' AND NOT o.detached AND (o.token = ANY (outers) OR o.around = ANY (outers))
    AND split_part(o.owner, E'\t', 1) = split_part(who, E'\t', 1)
    AND split_part(o.owner, E'\t', 2) = split_part(who, E'\t', 2) ORDER BY o.around NULLS FIRST LIMIT 1;
  IF h.name IS NOT NULL THEN
    DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
    holder := coalesce(h.around, h.token);
    IF h.mode NOT IN ('x', want) THEN
      result := 'mode ' || h.mode;
      RETURN;
    END IF;
    fence := h.fence;
    whole := h.mode = 'x';
    covered := for_hold AND EXISTS (SELECT FROM dlock.holder o WHERE o.name = key AND o.expires > now
      AND (o.token = holder OR o.around = holder) AND o.owner LIKE E'%\thold=1%'
      AND split_part(o.owner, E'\tuser=', 1) = split_part(who, E'\tuser=', 1));
    IF NOT covered AND NOT detach THEN
      INSERT INTO dlock.holder VALUES (key, me, h.mode, who, now, now + ttl * 1000, ttl, h.fence, holder,
        'held', false) ON CONFLICT (name, token) DO UPDATE SET expires = excluded.expires;
    END IF;
    result := 'within';
    RETURN;
  END IF;

  SELECT * INTO mine FROM dlock.holder o WHERE o.name = key AND o.token = me AND o.expires > now;
  IF mine.name IS NULL THEN
    ticket := place;
    IF place = 0 THEN
      ticket := greatest(l.ticket + 1, now);
    END IF;
    IF EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key) OR NOT dlock.fits(key, me, want, most) THEN
      IF queues THEN
        session := dlock.number_session(session);
        INSERT INTO dlock.waiter VALUES (key, me, want, most, who, ticket, points, ttl, under, session)
          ON CONFLICT (name, token) DO UPDATE SET session = excluded.session;
      END IF;
      PERFORM dlock.hand_on(key, me);
      SELECT * INTO mine FROM dlock.holder o WHERE o.name = key AND o.token = me AND o.expires > now;
    END IF;
    -- All that were ahead may have turned out to be dead.
    IF mine.name IS NULL AND NOT EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key)
      AND dlock.fits(key, me, want, most) THEN
      mine.name := key;
    END IF;
  ELSE
    ticket := place;
  END IF;

  IF mine.name IS NOT NULL AND dlock.take_advisory(advisory, want) THEN
    fence := greatest(l.fence + 1, now);
    DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
    DELETE FROM dlock.holder o WHERE o.name = key AND (o.expires <= now OR o.token = me);
    INSERT INTO dlock.holder VALUES (key, me, want, who, now, now + ttl * 1000, ttl, fence, NULL, 'held', detach);
    UPDATE dlock.lock u SET fence = acquire_1.fence, granted = u.granted + 1,
      ticket = greatest(u.ticket, acquire_1.ticket),
      waited_us = u.waited_us + CASE WHEN place = 0 THEN 0 ELSE greatest(0, now - place) END
      WHERE u.name = key;
    result := 'granted';
    RETURN;
  END IF;

  result := 'busy';
  fence := l.fence;
  IF mine.name IS NOT NULL THEN
    is_foreign := true;
    DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me;
    IF queues THEN
      session := dlock.number_session(session);
      INSERT INTO dlock.waiter VALUES (key, me, want, most, who, ticket, points, ttl, under, session)
        ON CONFLICT (name, token) DO UPDATE SET session = excluded.session;
    END IF;
  END IF;
  IF place = 0 THEN
    UPDATE dlock.lock u SET contended = u.contended + 1, ticket = greatest(u.ticket, acquire_1.ticket)
      WHERE u.name = key;
  END IF;
  IF queues AND cardinality(under) > 0 THEN
    PERFORM pg_advisory_xact_lock(1684826994, 0);
    IF dlock.is_in_circle(key, want, under) THEN
      DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
      owner := dlock.circle(key, under);
      result := 'circle';
      RETURN;
    END IF;
  END IF;
  SELECT o.token, o.owner, (now - o.since) / 1000 INTO holder, owner, ms FROM dlock.holder o
    WHERE o.name = key AND o.expires > now ORDER BY o.expires LIMIT 1;
  SELECT CASE WHEN want = 'p' THEN min(o.expires) ELSE max(o.expires) END - now INTO left_us
    FROM dlock.holder o WHERE o.name = key AND o.expires > now;
  SELECT CASE WHEN queues THEN count(*) ELSE -1 END INTO rank FROM dlock.waiter w
    WHERE w.name = key AND (dlock.place_of(w), w.ticket) < (acquire_1.ticket - points * 60000000::bigint, acquire_1.ticket);
END $$;

-- Extends a lease; ttl 0: by as much as it was acquired for. by_token: only that of a detached lock. result:
-- extended, again (it had expired, and none has come since), or denied.
CREATE OR REPLACE FUNCTION dlock.renew_1(key text, me text, ttl bigint, by_token boolean, advisory bigint,
  OUT result text, OUT ttl_ms bigint, OUT fence bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  h dlock.holder;
  now bigint;
BEGIN
  PERFORM FROM dlock.lock WHERE name = key FOR UPDATE;
  now := dlock.now_us();
  SELECT * INTO h FROM dlock.holder o WHERE o.name = key AND o.token = me AND o.state = 'held'
    AND (o.detached AND o.expires > now OR NOT by_token);
  result := 'denied';
  IF h.name IS NULL THEN
    UPDATE dlock.lock u SET lost = u.lost + 1 WHERE u.name = key AND NOT by_token;
    RETURN;
  END IF;
  ttl_ms := CASE WHEN ttl = 0 THEN h.ttl_ms ELSE ttl END;
  fence := h.fence;
  result := CASE WHEN h.expires > now THEN 'extended' ELSE 'again' END;
  UPDATE dlock.holder o SET expires = greatest(o.expires, now + renew_1.ttl_ms * 1000)
    WHERE o.name = key AND o.token = me;
  -- A new session has to take the advisory lock anew; the old one may still have it.
  PERFORM dlock.take_advisory(advisory, h.mode);
END $$;

-- Gives back whatever the token has: the lock, or a place in the queue; then hands on. keep_ms > 0: lets the
-- lock expire then. granted: the fencing token that is known; 0: none. result: released, gone, lost, or denied.
CREATE OR REPLACE FUNCTION dlock.release_1(key text, me text, keep_ms bigint, granted_fence bigint, by_token boolean,
  success_ boolean, once_id text, once_ms bigint, advisory bigint,
  OUT result text, OUT inside text, OUT is_around boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  l dlock.lock := dlock.enter(key);
  h dlock.holder;
  now bigint := dlock.now_us();
BEGIN
  SELECT * INTO h FROM dlock.holder o WHERE o.name = key AND o.token = me
    AND (o.detached AND o.expires > now OR NOT by_token);
  is_around := h.around IS NOT NULL AND EXISTS (SELECT FROM dlock.holder o WHERE o.name = key
    AND o.token = h.around AND o.expires > now);
  result := 'released';
  IF by_token AND h.name IS NULL THEN
    result := 'denied';
    RETURN;
  ELSIF me = ANY (l.ended) AND h.name IS NULL OR h.state = 'kept' THEN
    RETURN; -- repeated
  ELSIF h.name IS NULL THEN
    result := CASE WHEN granted_fence > 0 THEN 'lost' ELSE 'gone' END;
    DELETE FROM dlock.waiter w WHERE w.name = key AND w.token = me;
    IF FOUND THEN
      UPDATE dlock.lock u SET timeouts = u.timeouts + 1 WHERE u.name = key;
    END IF;
  ELSIF keep_ms > 0 AND h.around IS NULL THEN
    UPDATE dlock.holder o SET state = 'kept', expires = now + keep_ms * 1000 WHERE o.name = key AND o.token = me;
  ELSE
    DELETE FROM dlock.holder o WHERE o.name = key AND o.token = me;
  END IF;
  SELECT string_agg(substring(o.owner FROM E'\tpid=([0-9]+)'), ' ') INTO inside FROM dlock.holder o
    WHERE o.name = key AND o.around = me AND o.expires > now;
  IF advisory IS NOT NULL AND h.name IS NOT NULL THEN
    PERFORM CASE WHEN h.mode = 'x' THEN pg_advisory_unlock(advisory) ELSE pg_advisory_unlock_shared(advisory) END;
  END IF;
  UPDATE dlock.lock u SET ended = (me || u.ended)[1:20],
    held_us = u.held_us + CASE WHEN h.state = 'held' AND h.around IS NULL THEN now - h.since ELSE 0 END,
    success = CASE WHEN success_ AND result = 'released' THEN now ELSE u.success END WHERE u.name = key;
  IF success_ AND result = 'released' AND once_id <> '' THEN
    DELETE FROM dlock.once o WHERE o.expires < now;
    INSERT INTO dlock.once VALUES (key, once_id, now, now + once_ms * 1000)
      ON CONFLICT (name, id) DO UPDATE SET at = excluded.at, expires = excluded.expires;
  END IF;
  PERFORM dlock.hand_on(key, '');
  UPDATE dlock.lock u SET alone = '' WHERE u.name = key AND NOT EXISTS (SELECT FROM dlock.holder o WHERE o.name = key)
    AND NOT EXISTS (SELECT FROM dlock.waiter w WHERE w.name = key);
END $$;

-- Breaks the lock of any holder; a row for each that it had.
CREATE OR REPLACE FUNCTION dlock.force_1(key text) RETURNS TABLE (token text, owner text, ms bigint, left_ms bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM dlock.enter(key);
  RETURN QUERY SELECT o.token, o.owner, (dlock.now_us() - o.since) / 1000, (o.expires - dlock.now_us()) / 1000
    FROM dlock.holder o WHERE o.name = key AND o.expires > dlock.now_us()
    AND o.state <> 'handed' ORDER BY o.around NULLS FIRST, o.since;
  UPDATE dlock.lock u SET ended = (ARRAY(SELECT token FROM dlock.holder o WHERE o.name = key) || u.ended)[1:20]
    WHERE u.name = key;
  DELETE FROM dlock.holder o WHERE o.name = key;
  PERFORM dlock.hand_on(key, '');
END $$;

-- The advisory lock that dlock_advisory= asks for; NULL: none.
CREATE OR REPLACE FUNCTION dlock.advisory_key(how text, name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN how = 'hashtext' THEN hashtext(name)::bigint ELSE how::bigint END
$$;

CREATE OR REPLACE FUNCTION dlock.is_foreign(key bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT key IS NOT NULL AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid)
$$;

-- Holders and waiters of a lock, and a row for itself. Those inside another are not shown beside it.
CREATE OR REPLACE FUNCTION dlock.owners(key text, OUT kind text, OUT place bigint, OUT mode text, OUT owner text,
  OUT priority int, OUT ms bigint, OUT ttl_ms bigint, OUT since bigint, OUT detached boolean)
RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
  SELECT 'h', o.expires, o.mode, o.owner, 0, (dlock.now_us() - o.since) / 1000, (o.expires - dlock.now_us()) / 1000,
    o.since, o.detached
  FROM dlock.holder o WHERE o.name = key AND o.expires > dlock.now_us() AND NOT EXISTS (SELECT
    FROM dlock.holder a WHERE a.name = key AND a.token = o.around AND a.expires > dlock.now_us())
  UNION ALL
  SELECT 'w', dlock.place_of(w), w.mode, w.owner, w.priority, (dlock.now_us() - w.ticket) / 1000, -1, w.ticket, false
  FROM dlock.waiter w WHERE w.name = key AND dlock.lives(w.session)
  UNION ALL
  SELECT 'l', 0, '', '', 0, 0, 0, 0, false
$$;
