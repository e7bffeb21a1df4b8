-- Takes the lock, claims what was handed over, or queues for it.
-- ARGV  4   x, s, or pK for one of K permits
--       5   ttl (ms)
--       6   the lease of a waiter (ms); 0: does not wait
--       7   the ticket from an earlier answer; 0: none yet
--       8   the head start of its priority (us)
--       9   how long a holder that it knew may still come back (ms); 0: knew none
--       10  the fence it saw then: a counter below that means that the server lost its memory
--       11  TEXT for the record who:TOKEN
--       12  a success will do that began less than that ago (ms); 0: do not ask
--       13  so does one on record under this ID; '': do not ask
--       14  what it holds: lines "TOKEN NAME"; '': nothing. Shown as long as it waits
--       15  take nothing from a server that has been up for less than that (ms); may be left out. Below 0:
--           the same, but one that does not say for how long passes
--       16  of how many servers this is one, in a quorum; may be left out: it is the only one
--       17  on a quorum: the waiter, a token that stays the same through all attempts
--       18  on a quorum: how long the lock is held for until confirm.lua (ms)
-- ->    granted, now, fence, generation, {handed} [, 1: it does not say for how long it has been up; of
--             permits also its slot: the lowest that no other holder has]
--       busy, now, fence, ticket, rank (-1: not queued), left (ms until it may come free; -1: never
--             by itself), holder, its record, {handed} [, if the only reason is that the server has not
--             been up for long enough: for how long it still gives no lock, and has been up (ms)]
--       already, now, that success (a run: see the prelude; or when it was, us), {handed}
--       ended: a late request of a client that released the lock since
--       size, n: on record is a quorum of n servers, and that is not what the caller knows
--       twice: on a quorum: this attempt has been here before, so the server is listed twice
local want, most = mode_of(ARGV[4])
local ttl, lease, ticket, off = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[9])
local text, cooldown, once = ARGV[11], tonumber(ARGV[12]), ARGV[13]
local settle, size = tonumber(ARGV[15] or 0), tonumber(ARGV[16] or 0)
local waiter = ARGV[17] or me
local first = ticket == 0
-- For how long the server has been up (ms); the moment from which on that is enough (us); 1 if it does
-- not say. nil: it was not asked.
local up, settled, unknown
-- When a holder that the caller knew need not be waited for any longer (us).
local returned = 0

local granted, contended, waited_us, last_ticket, success, forced =
  know('granted', 'contended', 'waited_us', 'ticket', 'success', 'forced')

local function grant(claimed)
  local fence = next_fence()
  local gen = fence
  if want ~= 'x' and cur and meta.gen > 0 then
    gen = meta.gen
  end
  if not first then
    waited_us = waited_us + math.max(0, now() - ticket)
  end
  call('HSET', META, 'fence', int(fence), 'gen', int(gen), 'token', me, 'granted', int(granted + 1),
    'waited_us', int(waited_us))
  keep_meta_today(fence, ttl)
  -- Of an exclusive lock meta says it.
  local own, slot = want == 'x' and '' or '\tfence=' .. int(fence), nil
  if want == 'p' then
--+ slots.lua
    local taken = taken_slots()
    slot = 0
    while taken[slot] do
      slot = slot + 1
    end
    own = own .. '\tslot=' .. slot
  end
  call('SET', WHO, ARGV[4]:upper() .. '|' .. int(now()) .. '|' .. text .. own, 'PX', ttl)
  if claimed then
    call('DEL', WAKE)
  end
  place(me, want, ttl)
  if slot then
    return {'granted', now(), fence, gen, handed, unknown or false, slot}
  end
  return {'granted', now(), fence, gen, handed, unknown}
end

-- If the server's clock was set back behind its start, it says that it has been up for less than nothing. Then
-- it has been up since this lock was first asked for after that (us).
local function first_seen(run)
  local known, moment = (call('HMGET', META, 'run')[1] or ''):match('^(%w*) (%d+)$')
  moment = tonumber(moment)
  if known ~= run or moment > now() then
    moment = now()
    call('HSET', META, 'run', run .. ' ' .. int(moment))
    keep_meta(0)
  end
  return moment
end

-- Whether the server has been up for long enough. It counts whole seconds, from the one in which it
-- started: so it did that before the next one began. After release --force no holder can return.
local function has_settled()
  local info = settle > 0 and call('INFO', 'server') or redis.pcall('INFO', 'server')
  local seconds = type(info) == 'string' and tonumber(info:match('uptime_in_seconds:(%-?%d+)'))
  if not seconds then
    unknown = settle < 0 and 1 or error('INFO does not say for how long the server has been up')
    return true
  end
  local start = (math.floor(now() / 1000000) - seconds + 1) * 1000000
  if seconds < 0 then
    start = first_seen(info:match('run_id:(%w+)') or '')
  end
  up = math.max(0, math.floor((now() - start) / 1000))
  settled = forced > start - 1000000 and 0 or start + math.abs(settle) * 1000
  return settled <= now()
end

if has_ended() then
  return {'ended'}
end
if meta.size ~= size then
  if meta.size > 0 then
    return {'size', meta.size}
  end
  meta.size = size
  call('HSET', META, 'size', size)
  keep_meta(0)
end
purge()

-- The caller's own reasons to wait are known only after keep_off; settled is that of --settle.
local function own_off()
  return math.max(returned, settled or 0)
end

local function may_have()
  return own_off() <= now() and fits(want, most)
end

local function at_once()
  return (not cur or sharing()) and call('ZCARD', QUEUE) == 0 and may_have()
end

-- The usual cases: a claim; no holder and no waiter. Nothing else is asked for.
local plain = size == 0 and cooldown == 0 and once == ''
if plain and want == 'x' and cur == me then
  return grant(true)
end
if plain and first and off == 0 and at_once() and (settle == 0 or has_settled()) then
  return grant(false)
end
--+ handing.lua

-- One server's part of a quorum: a majority, and confirm.lua, settle which client holds it. So nothing
-- that lasts is written yet, not even the counter.
local function promise()
  local tentative = ARGV[18]
  call('SET', WHO, ARGV[4] .. '|' .. int(now()) .. '|' .. text, 'PX', tentative)
  place(me, want, tentative)
  return {'granted', now(), next_fence(), next_fence(), handed, unknown}
end

local function queue()
  if first then
    ticket = math.max(last_ticket + 1, now())
  end
  local held = ARGV[14] ~= '' and '\theld=' .. ARGV[14] or ''
  call('SET', companion('who:', waiter), ARGV[4] .. '|' .. int(ticket) .. '|' .. text .. held, 'PX', lease)
  -- The answer says more than any message that came before, which would only wake the waiter for nothing.
  call('DEL', companion('wake:', waiter))
  local new = call('ZADD', QUEUE, 'NX', ticket - ARGV[8], waiter) == 1
  -- If the lock is handed to no waiter, the dead ones are not passed over by the way either.
  if size > 0 then
    call('PEXPIRE', QUEUE, MINUTE)
  elseif new then
    call('PEXPIRE', QUEUE, DAY)
  end
end

local function busy()
  if first then
    local asks = cooldown > 0 or once ~= ''
    call('HSET', META, 'contended', int(contended + 1), 'ticket', int(math.max(last_ticket, ticket)),
      unpack(lease > 0 and asks and {'asks', '1'} or {}))
    if meta.fence == 0 then
      keep_meta(0)
    end
  end
  local holder, left = cur or '', 0
  local pause = math.max(0, math.ceil((math.max(held_off(), own_off()) - now()) / 1000))
  if sharing() then
    local share = call('ZRANGE', HOLDERS, 0, 0, 'WITHSCORES')
    holder = share[1] or ''
    if want == 'p' and cur == WORDS.p and share[2] then
      left = math.max(0, share[2] - ms())
    else
      left = call('PTTL', K)
    end
    if want == 's' and cur == WORDS.s and pause > 0 then
      left = pause
    end
  elseif cur then
    left = call('PTTL', K)
  else
    left = pause
  end
  -- A foreign value may be of any size, or empty; no token of ours is that long, or just that.
  holder = cur == '' and '-' or holder:sub(1, 119)
  local who = holder ~= '' and call('GET', who_of(holder)) or ''
  local rank = lease > 0 and call('ZRANK', QUEUE, waiter) or -1
  -- Would it be granted, but for that?
  meta.off = 0
  if settled and settled > now() and fits(want, most) then
    return {'busy', now(), meta.fence, ticket, rank, left, holder, who, handed,
      math.ceil((settled - now()) / 1000), up}
  end
  return {'busy', now(), meta.fence, ticket, rank, left, holder, who, handed}
end

-- Leaves nothing of the caller behind, and hands on what it was handed.
local function step_aside()
  local mine, rank = is_mine(want), not first and call('ZRANK', QUEUE, me)
  if mine and want == 'x' then
    call('DEL', K)
    cur = false
  elseif mine then
    drop_share(me)
  end
  if mine or not first then
    call('ZREM', QUEUE, me)
    call('DEL', WHO, WAKE)
    drop_hold_offs(me)
  end
  if not cur or sharing() then
    hand_on()
  end
  if rank == 0 and cur and #handed == 0 then
    tell_head(0)
  end
end

-- A success that will do. A success that lies ahead is of a clock that was set back since: it must not count
-- for longer than asked for either.
local function already()
  local run
  if math.abs(now() - success) < cooldown * 1000 then
    run = call('HMGET', META, 'last_success')[1] or int(success)
  elseif once ~= '' then
    run = call('GET', companion('once:', once))
  end
  if run then
    step_aside()
    return {'already', now(), run, handed}
  end
end

-- A waiter holds others off for as long as it waits, and as its reason is there.
local function hold_off(reason, moment)
  local member = reason .. ' ' .. waiter
  if moment <= now() then
    if meta.off > 0 then
      call('ZREM', OFF, member)
    end
    return
  end
  meta.off = 1
  call('HSET', META, 'off', '1')
  keep_meta(0)
  call('ZADD', OFF, int(moment), member)
  call('PEXPIREAT', OFF, int(math.max(moment, latest(OFF)) / 1000 + MESSAGE))
end

-- A server that lost its memory, or has not been up for long, grants no client the lock while a holder
-- may come back.
local function keep_off()
  if not cur and off > 0 and meta.fence < tonumber(ARGV[10]) then
    returned = now() + off * 1000
  end
  if settle ~= 0 and not (up or unknown) then
    has_settled()
  end
  if lease > 0 then
    hold_off('return', returned)
    hold_off('settle', settled or 0)
  end
end

local pointless = (cooldown > 0 or once ~= '') and already()
if pointless then
  return pointless
end
-- A waiter asked when it queued, and claims what it was handed since.
if (off > 0 or settle ~= 0) and cur ~= me then
  keep_off()
end

if size > 0 then
  if cur == me then
    return {'twice'}
  end
  if may_have() then
    return promise()
  end
  if lease > 0 then
    queue()
  end
  return busy()
end

if is_mine(want) then
  -- More of a batch of sharers than one script hands out.
  if want ~= 'x' then
    hand_on(true)
  end
  return grant(true)
end
if at_once() then
  return grant(false)
end
if lease > 0 then
  queue()
end
if not cur or sharing() then
  hand_on(true)
  -- All that were ahead may turn out to be dead.
  if got or lease == 0 and call('ZCARD', QUEUE) == 0 and may_have() then
    return grant(got)
  end
end
return busy()
