-- Breaks the lock of any holder, another Redis client too, and hands it on to the waiters. No former
-- holder can set it again: at its next renewal, or its release, it learns that the lock is lost.
-- ARGV  4  only the holder with this fence; 0, or left out: all, and all hold-offs
-- ->    broken | off | free, now, left (ms; -1: it would not have ended by itself), {the holders' records; '': it
--       is not known}, {handed}
--       off: it was free, and a hold-off has ended. free: no client holds it, or none with that fence
--+ handing.lua
local contended = know('contended')
purge()
local only = tonumber(ARGV[4] or 0)
local result, left, holders = cur and 'broken' or 'free', cur and call('PTTL', K) or 0, {}
if not cur and only == 0 and held_off() > 0 then
  result, left = 'off', math.ceil((held_off() - now()) / 1000)
end

-- A holder that runs counts its loss itself; a detached one cannot.
local function drop(token)
  local who = call('GET', who_of(token)) or ''
  if (who .. '\t'):find('\tdetached=1\t', 1, true) then
    count('lost')
  end
  local kept = who ~= '' and token:find(ENDED .. '$')
  holders[#holders + 1] = kept and who .. '\tdetached=1' or who
  token = token:gsub(ENDED .. '$', '')
  call('DEL', companion('who:', token), companion('wake:', token))
end

-- An exclusive lock has the last fence that was given out. The grant of a share puts its fence on record.
local function has_fence(token)
  local who = call('GET', who_of(token)) or ''
  if token == cur then
    return who:find('^X') and meta.fence == only
  end
  return tonumber((who .. '\t'):match('\tfence=(%d+)\t')) == only
end

local tokens = {}
if sharing() then
  tokens = call('ZRANGE', HOLDERS, 0, -1)
elseif cur then
  tokens = {cur}
end
if only > 0 then
  local meant = {}
  for _, token in ipairs(tokens) do
    meant[#meant + 1] = has_fence(token) and token or nil
  end
  if #meant == 0 then
    return {'free', now(), 0, {}, handed}
  end
  tokens = meant
end
-- Of shares the next to end may be sooner over than the waiters know.
local look
if only > 0 and sharing() then
  local before = latest()
  local last = drop_share(tokens[1])
  look = last and last < before and last - ms()
else
  call('DEL', K, HOLDERS)
  cur = false
end
for _, token in ipairs(tokens) do
  -- A foreign value may be of any size; no token of ours is that long.
  if #token < 120 then
    drop(token)
  else
    holders[#holders + 1] = ''
  end
end
-- If the lock is free, its last holder may still be there, and about to set it again; even a server that has
-- lost its memory must know better then. So nobody is to be waited for.
if result ~= 'free' or meta.fence > 0 or only == 0 and contended > 0 then
  next_generation()
  if not cur then
    end_hold_offs()
    call('HSET', META, 'token', '', 'forced', int(now()))
  end
end
if meta.size > 0 then
  call_next()
else
  hand_on(true)
end
if look and #handed == 0 then
  tell_head(look)
end
return {result, now(), left, holders, handed}
