-- What all scripts share. Each is sent as this file followed by its own; redis-cli runs them as well:
--
--   cat prelude.lua acquire.lua > /tmp/a.lua
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
-- The lock is a string: the owner's token, or one of two words while it is shared or held by permits.
--   meta     hash    fence gen ticket off again token ended success keep size, and the counters
--   holders  zset    shares: token by expiry (ms)
--   queue    zset    waiters: token by ticket (us) less the head start of their priority. On a quorum
--                    each under a token that is not that of any attempt, and nothing is handed on.
--   who:T    string  MODE|NUMBER|TEXT. Waiting: x, s or pK and the ticket; the expiry is the lease.
--                    Once claimed: X, S or PK and the moment of the grant (us). TEXT is the client's.
--   waits:T  hash    who below this holder waits, and for what: see circle.lua
--   wake:T   list    messages: "go" (claim what is yours), "look N" (see for yourself in N ms), "prove TEXT"
--   once:ID  string  when there was a success under that ID (us)
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
-- How many one script hands the lock to at most; how many waiters may not look often enough; how many
-- tokens are known to have ended.
local MOST, FEW, ENDED = 64, 10, 4

local cur = call('GET', K)
local handed = {}
local got = false

-- Lua writes large numbers as 1.7952e+15.
local function int(n)
  return string.format('%.0f', n)
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

-- off: nobody is granted a free lock before it (us). again: the generation that was set again.
-- token: whose the last grant is, until it ends. ended: the tokens that were given back last, the last
-- first, so that a request with one of them that comes late does nothing, and a release may be repeated.
-- success: when COMMAND last ended well (us). keep: for how long that must be remembered, where it is
-- longer than a month (ms). size: of how many servers this is one, in a quorum; 0: it is the only one.
local NUMBERS = {'fence', 'gen', 'ticket', 'off', 'again', 'success', 'keep', 'size', 'granted',
  'contended', 'timeouts', 'lost', 'waited_us', 'held_us'}
local meta
local function know()
  local values = call('HMGET', META, 'token', 'ended', unpack(NUMBERS))
  meta = {token = values[1], ended = values[2] or ''}
  for i, name in ipairs(NUMBERS) do
    meta[name] = tonumber(values[i + 2]) or 0
  end
end

local function has_ended()
  return (' ' .. meta.ended .. ' '):find(' ' .. me .. ' ', 1, true) ~= nil
end

-- After know().
local function keep_meta(longer)
  call('PEXPIRE', META, int(math.max(MONTH, meta.keep) + longer))
end

local function companion(word, token)
  return ARGV[1] .. word .. token .. ARGV[2]
end

local function mode_of(text)
  local want, most = text:match('^([xsp])(%d*)')
  return want, tonumber(most)
end

local function sharing()
  return cur == WORDS.s or cur == WORDS.p
end

-- A word without shares (evicted, or somebody else's doing) is held until its own expiry.
local function fits(want, most)
  if meta.off > now() then
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

-- When the last share runs out (ms); nil without shares.
local function latest()
  return tonumber(call('ZREVRANGE', HOLDERS, 0, 0, 'WITHSCORES')[2])
end

-- Takes a share away; the lock lives as long as the last of those that are left: when that runs out,
-- nil where there is none.
local function drop_share(token)
  call('ZREM', HOLDERS, token)
  local last = latest()
  if last then
    call('PEXPIREAT', HOLDERS, last)
    call('PEXPIREAT', K, last)
  else
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

-- Shares that are taken from here on are no longer of the generation of those before.
local function next_generation()
  meta.fence = next_fence()
  meta.gen = meta.fence
  call('HSET', META, 'fence', int(meta.fence), 'gen', int(meta.gen))
  keep_meta(0)
end

local function tell(token, message)
  local wake = companion('wake:', token)
  call('RPUSH', wake, message)
  call('PEXPIRE', wake, MESSAGE)
end

-- Has the first in the queue look in a while. Until it listens again it has the short lease of one
-- that may not be listening: see verify.lua.
local function tell_head(after)
  local head = call('ZRANGE', QUEUE, 0, 0)[1]
  if head then
    tell(head, 'look ' .. int(after))
    call('PEXPIRE', companion('who:', head), LEASE)
  end
end

-- On a quorum no server can hand the lock on alone: it wakes the first that lives, who then tries,
-- and the next one a while later, should that one be dead. A herd of them would only split the votes.
local function call_next()
  for _ = 1, MOST do
    local first, second = unpack(call('ZRANGE', QUEUE, 0, 1))
    if not first then
      return
    end
    if call('GET', companion('who:', first)) then
      tell_head(0)
      if second then
        tell(second, 'look ' .. CLAIM)
      end
      return
    end
    call('ZREM', QUEUE, first)
  end
end

-- Puts a lock that is free, or shared, into the names of those whose turn it is, for the time of
-- a claim. Passes over those whose lease has run out. A writer at the head blocks later readers.
-- The one who comes next is told to look for himself when the claim must have come: the giver may
-- be dead by then as well. Where many wait, one of them will look by then in any case. And verify,
-- which may pass over many dead in a row, tells nobody: who was told something can no longer be
-- told from one that is on his way back to listening.
local function hand_on(tells)
  if meta.size > 0 then
    return
  end
  local before = #handed
  while #handed < MOST do
    local head = call('ZRANGE', QUEUE, 0, 0)[1]
    if not head then
      break
    end
    local want, most = mode_of(call('GET', companion('who:', head)) or '')
    if want and not fits(want, most) then
      break
    end
    call('ZREM', QUEUE, head)
    if want then
      if not cur and want ~= 'x' then
        next_generation()
      end
      place(head, want, CLAIM)
      if head == me then
        got = true
      else
        tell(head, 'go')
        handed[#handed + 1] = head
      end
      if want == 'x' then
        break
      end
    end
  end
  if tells and #handed > before and call('ZCARD', QUEUE) < FEW then
    tell_head(CLAIM + 5)
  end
end

local function is_mine(want)
  if want == 'x' then
    return cur == me
  end
  return cur == WORDS[want] and call('ZSCORE', HOLDERS, me) ~= false
end
