-- What all scripts share. Each is sent as this file followed by its own; redis-cli runs them as well:
--
--   sh embed.sh -t prelude.lua acquire.lua > /tmp/a.lua
--   redis-cli --eval /tmp/a.lua lock:x lock:{lock:x}:meta lock:{lock:x}:holders lock:{lock:x}:queue \
--     lock:{lock:x}:who:TOKEN lock:{lock:x}:wake:TOKEN , lock:{lock:x}: '' TOKEN x 60000 0 0 0 0 0 'host=me' \
--     0 '' ''
--
-- KEYS  the lock; its companions meta, holders, queue; the caller's own who and wake
-- ARGV  1, 2  how the names of companions begin and end (who and wake of others are built from them;
--             they lie in the lock's hash slot, though they are not declared)
--       3     the caller's token
--       4...  what the script says
--
-- The lock is a string: the owner's token, or one of two words while it is shared or held by permits. When
-- the owner has released it and it stays all the same (--at-least), "TOKEN ended"; so does a share. Therefore
-- no client takes an ended token for a holder, and no late renewal extends it.
--   meta     hash    fence gen ticket off again token ended success keep size format, and the counters
--   holders  zset    shares: token by expiry (ms)
--   queue    zset    waiters: token by ticket (us) less the head start of their priority. On a quorum
--                    each under a token that is not that of any attempt, and nothing is handed on.
--   who:T    string  MODE|NUMBER|TEXT. Waiting: x, s or pK and the ticket; the expiry is the lease.
--                    Once claimed: X, S or PK and the moment of the grant (us). TEXT is the client's;
--                    behind that of a waiter that holds something stands \theld= and lines "TOKEN NAME".
--   wake:T   list    messages: "go" (claim what is yours), "look N" (see for yourself in N ms), "done"
--                    (ask again: a success is on record); with " listens" behind it if the waiter said so
--   once:ID  string  when there was a success under that ID (us)
--   off      zset    hold-offs: "REASON WAITER" by the moment (us) before which no client is granted a lock that
--                    is free. It lives no longer than that waiter's lease. settle: the server came up lately;
--                    return: it has lost its memory, and the holder that the waiter knew may come back.
--
-- Nothing is rolled back when a command fails half-way. So the lock is written last by what takes it,
-- and first by what gives it back; and it is read first, because a key of another type then stops
-- the script before any write.
local K, META, HOLDERS, QUEUE, WHO, WAKE = unpack(KEYS)
local me = ARGV[3]
local call = redis.call
local WORDS = {s = 'dlock:shared', p = 'dlock:permits'}
-- ms: how long what was handed waits for its claim; the lease of a waiter that does not listen yet;
-- how long messages, the queue (on a quorum, and else) and meta live without being touched.
local CLAIM, LEASE, MESSAGE, MINUTE, DAY, MONTH = 1000, 2000, 10000, 60000, 86400000, 2592000000
-- How many one script hands the lock to at most; how many waiters may not look often enough.
local MOST, FEW = 64, 10
-- In which all this is kept: lock/service.h. In meta, if it is another than 1.
local FORMAT = 1
-- Behind the token of a holder that has given the lock back, and behind a message: see above.
local ENDED, LISTENS = ' ended', ' listens'

local cur = call('GET', K)
local handed = {}

-- Lua writes large numbers as 1.7952e+15.
local format = string.format
local function int(n)
  return format('%d', n)
end

local us
local function now()
  if not us then
    local time = call('TIME')
    us = time[1] * 1000000 + time[2]
  end
  return us
end

local function ms()
  return math.floor(now() / 1000)
end

-- off: 0: there is no hold-off. token: the owner of the last grant, until it
-- ends. ended: the tokens that were released last, the last first. So a late request with one of them
-- does nothing, and a release may be repeated. size: of how many servers this is one, in a quorum; 0:
-- it is the only one. keep: for how long a success must be remembered, if that is longer than a month
-- (ms). What only one script needs it names, and gets as numbers: ticket, the last that was given out;
-- again, the generation that was set again; asks, 1: a success may be what a waiter waits for; success,
-- when the last COMMAND that ended well began (us); and the counters. last_run, last_success: that
-- COMMAND, and the last of all, as BEGAN|ENDED|EXIT|TEXT (us, us, its exit code).
local meta
local function know(...)
  local values = call('HMGET', META, 'token', 'ended', 'fence', 'gen', 'off', 'size', 'keep', 'format', ...)
  -- Nothing was written so far. 0: without the place in the script, which would stand before it.
  if (tonumber(values[8]) or 1) > FORMAT then
    error('dlock format ' .. values[8], 0)
  end
  meta = {
    token = values[1], ended = values[2] or '', fence = tonumber(values[3]) or 0,
    gen = tonumber(values[4]) or 0, off = tonumber(values[5]) or 0, size = tonumber(values[6]) or 0,
    keep = tonumber(values[7]) or 0,
  }
  for i = 9, #values do
    values[i] = tonumber(values[i]) or 0
  end
  return unpack(values, 9)
end

local function has_ended()
  return meta.ended:find(me, 1, true) and (' ' .. meta.ended .. ' '):find(' ' .. me .. ' ', 1, true) ~= nil
end

-- A day is added for the time up to the next grant that sets it anew, and one for a lease.
local function keep_meta(longer)
  call('PEXPIRE', META, int(math.max(MONTH, meta.keep) + 2 * DAY + longer))
end

-- At a grant: the first of a day will do, as the fence grows with the clock.
local function keep_meta_today(fence, ttl)
  if ttl > DAY or math.floor(meta.fence / DAY / 1000) ~= math.floor(fence / DAY / 1000) then
    keep_meta(ttl)
  end
end

-- For what happens seldom.
local function count(counter)
  call('HSET', META, counter, int((tonumber(call('HMGET', META, counter)[1]) or 0) + 1))
end

local function companion(word, token)
  return ARGV[1] .. word .. token .. ARGV[2]
end

local OFF = companion('off', '')

-- The record of a holder, by what the lock calls it.
local function who_of(name)
  return companion('who:', (name:gsub(ENDED .. '$', '')))
end

local function mode_of(text)
  local want, most = text:match('^([xsp])(%d*)')
  return want, tonumber(most)
end

local function sharing()
  return cur == WORDS.s or cur == WORDS.p
end

local function end_hold_offs()
  if meta.off > 0 then
    meta.off = 0
    call('HSET', META, 'off', '0')
    call('DEL', OFF)
  end
end

-- Until when no client is granted a lock that is free (us; 0: it may be at once). If the server's clock is set
-- back, a hold-off seems to last for longer; but its waiter asks again when it was to end, and then it does.
local function held_off()
  if meta.off == 0 then
    return 0
  end
  while true do
    local last = call('ZREVRANGE', OFF, 0, 0, 'WITHSCORES')
    if not last[1] or tonumber(last[2]) <= now() then
      end_hold_offs()
      return 0
    end
    if mode_of(call('GET', companion('who:', last[1]:match('%S+$'))) or '') then
      return tonumber(last[2])
    end
    call('ZREM', OFF, last[1])
  end
end

-- A waiter leaves, and its hold-offs with it.
local function drop_hold_offs(token)
  if meta.off > 0 then
    call('ZREM', OFF, 'settle ' .. token, 'return ' .. token)
  end
end

-- A word without shares (evicted, or another client's doing) is held until its own expiry.
local function fits(want, most)
  if held_off() > 0 then
    return false
  end
  if not cur then
    return true
  end
  if want == 'x' or cur ~= WORDS[want] then
    return false
  end
  local count = call('ZCARD', HOLDERS)
  return count > 0 and (want == 's' or count < most)
end

-- Redis calls a key expired when its moment is past, so a share as well.
local function purge()
  if sharing() and call('ZREMRANGEBYSCORE', HOLDERS, '-inf', '(' .. int(ms())) > 0
    and call('ZCARD', HOLDERS) == 0 then
    call('DEL', K)
    cur = false
  end
end

-- When the last share, or the last of another set, runs out (ms); nil: there is none.
local function latest(key)
  return tonumber(call('ZREVRANGE', key or HOLDERS, 0, 0, 'WITHSCORES')[2])
end

-- The lock lives as long as the last of its shares: when that runs out.
local function keep_shares()
  local last = latest()
  if last then
    call('PEXPIREAT', HOLDERS, last)
    call('PEXPIREAT', K, last)
  end
  return last
end

-- Takes a share away; when the last of those that are left runs out, nil if there is none.
local function drop_share(token)
  call('ZREM', HOLDERS, token)
  local last = keep_shares()
  if not last then
    call('DEL', K)
    cur = false
  end
  return last
end

local function place(token, want, ttl)
  if want == 'x' then
    cur = token
    call('SET', K, token, 'PX', ttl)
    return
  end
  if not cur then
    call('DEL', HOLDERS)
  end
  call('ZADD', HOLDERS, ms() + ttl, token)
  local last = latest()
  cur = WORDS[want]
  call('PEXPIREAT', HOLDERS, last)
  call('SET', K, cur, 'PX', last - ms())
end

-- Above every fence so far, and above those of a server that lost its counter but not its clock.
local function next_fence()
  return math.max(meta.fence + 1, now())
end

local function is_mine(want)
  if want == 'x' then
    return cur == me
  end
  return cur == WORDS[want] and call('ZSCORE', HOLDERS, me) ~= false
end
