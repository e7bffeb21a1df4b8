-- One lock as `dlock status` shows it; changes nothing.
-- ->    now, free | exclusive | foreign | shared | permits, left (ms; -1: never by itself), fence,
--       {holder's left (ms), its record, its token if it is a process, ...}, {the waiters' records, the
--       first first}, {the counters},
--       {the hold-off that reaches furthest: settle | return, its left (ms), the waiter's record; or nothing},
--       {the last run, the last success; '': none}, {number of a waiter that holds something and has shown of
--       late that it lives, its token, ...}
local kind, left, holders, waiters = 'free', -1, {}, {}
local counters = {know('granted', 'contended', 'timeouts', 'lost', 'waited_us', 'held_us')}

if sharing() then
  kind = cur == WORDS.s and 'shared' or 'permits'
  local shares = call('ZRANGEBYSCORE', HOLDERS, int(ms()), '+inf', 'WITHSCORES')
  for i = 1, #shares, 2 do
    holders[#holders + 1] = shares[i + 1] - ms()
    holders[#holders + 1] = call('GET', who_of(shares[i])) or ''
    holders[#holders + 1] = shares[i]:find(' ', 1, true) and '' or shares[i]
  end
elseif cur then
  -- A foreign value may be of any size; no token of ours is that long.
  local who = #cur < 120 and call('GET', who_of(cur))
  kind = who and 'exclusive' or 'foreign'
  if who then
    holders = {call('PTTL', K), who, cur:find(' ', 1, true) and '' or cur}
  end
end
if cur then
  left = call('PTTL', K)
end

-- In pieces: Lua's stack takes some thousands of arguments.
-- A waiter that holds something renews its lease each second (single/wait.c): what is late has died, perhaps.
local LATE = 300
local queued, nested = call('ZRANGE', QUEUE, 0, -1), {}
for from = 1, #queued, 500 do
  local names = {}
  for i = from, math.min(from + 499, #queued) do
    names[#names + 1] = companion('who:', queued[i])
  end
  for i, who in ipairs(call('MGET', unpack(names))) do
    if who then
      waiters[#waiters + 1] = who
      if who:find('\theld=', 1, true) and call('PTTL', names[i]) > LEASE - LATE then
        nested[#nested + 1] = #waiters
        nested[#nested + 1] = queued[from + i - 1]
      end
    end
  end
end

-- Changes nothing, not even what is past.
local function hold_off()
  local all = meta.off > 0 and call('ZREVRANGE', OFF, 0, -1, 'WITHSCORES') or {}
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) < now() then
      break
    end
    local reason, token = all[i]:match('^(%S+) (%S+)$')
    local who = token and call('GET', companion('who:', token)) or ''
    if mode_of(who) then
      return {reason, math.ceil((all[i + 1] - now()) / 1000), who}
    end
  end
  return {}
end

local runs = call('HMGET', META, 'last_run', 'last_success')
return {now(), kind, left, meta.fence, holders, waiters, counters, hold_off(),
  {runs[1] or '', runs[2] or ''}, nested}
