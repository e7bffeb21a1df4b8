-- What dlock keeps in a database. It is made on first use, and may be run again. Moments are in us of
-- clock_timestamp(): now() stands still within a transaction.
CREATE SCHEMA IF NOT EXISTS dlock;

-- A lock. Its row is the mutex: each function locks it first, and for microseconds.
CREATE TABLE IF NOT EXISTS dlock.lock (
  name text PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  ticket bigint NOT NULL DEFAULT 0,
  told bigint NOT NULL DEFAULT 0,      -- when waiters were told to see whether the ones ahead of them are dead
  alone text,                          -- '': it has no holder and no waiter; a token: only this holder; null: see there
  owner text, since bigint, expires bigint, ttl_ms bigint, detached boolean,  -- as in dlock.holder
  last_run text, last_success text,    -- BEGAN|ENDED|EXIT|OWNER: the last COMMAND, and the last that ended well
  ended text[] NOT NULL DEFAULT '{}',  -- owner tokens that were released last
  keep_us bigint NOT NULL DEFAULT 2592000000000,  -- how long it is remembered: a month, or the longest cooldown
  granted bigint NOT NULL DEFAULT 0, contended bigint NOT NULL DEFAULT 0, timeouts bigint NOT NULL DEFAULT 0,
  lost bigint NOT NULL DEFAULT 0, waited_us bigint NOT NULL DEFAULT 0, held_us bigint NOT NULL DEFAULT 0
);

-- The format (lock/service.h): format.sql and take.sql read it. No comment: 1.
COMMENT ON TABLE dlock.lock IS 'dlock format 1';

-- What keeps it from others, until it expires. One that has expired may come back as long as its row is
-- there: a grant to another takes it away.
CREATE TABLE IF NOT EXISTS dlock.holder (
  name text NOT NULL,
  token text NOT NULL,
  mode text NOT NULL,                   -- x, s, or p
  owner text NOT NULL,
  since bigint NOT NULL,
  expires bigint NOT NULL,
  ttl_ms bigint NOT NULL,
  fence bigint NOT NULL,
  around text,                          -- unused
  state text NOT NULL,                  -- handed: a claim; held; kept: by --at-least, without a process
  detached boolean NOT NULL,
  slot int,                             -- with mode p: one that no other holder has
  PRIMARY KEY (name, token)
);

CREATE TABLE IF NOT EXISTS dlock.waiter (
  name text NOT NULL,
  token text NOT NULL,
  mode text NOT NULL,
  permits int NOT NULL,
  owner text NOT NULL,
  ticket bigint NOT NULL,
  priority int NOT NULL,
  ttl_ms bigint NOT NULL,
  held text[] NOT NULL,                 -- what it holds: "TOKEN NAME"
  session int NOT NULL,                 -- its session has the advisory lock of this number
  PRIMARY KEY (name, token)
);

-- Successes on record under an ID.
CREATE TABLE IF NOT EXISTS dlock.once (
  name text NOT NULL,
  id text NOT NULL,
  at bigint NOT NULL,
  expires bigint NOT NULL,
  PRIMARY KEY (name, id)
);

-- 1 stands for this script, and 0 is an older dlock's.
CREATE SEQUENCE IF NOT EXISTS dlock.session AS int MINVALUE 2 CYCLE;
