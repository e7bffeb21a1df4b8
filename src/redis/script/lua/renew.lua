-- Extends the lease; or sets the lock again if the server has lost it and no client that it
-- remembers has come since.
-- ARGV  4  x, s, or pK
--       5  ttl (ms), or what is left of --at-least if that is longer
--       6  the fence and
--       7  the generation of the grant
--       8  the record who:TOKEN, in full
--       9  of how many servers this is one, in a quorum; may be left out: it is the only one
--       10 1: what is remembered of the lock is to live on; once a day will do; may be left out
-- ->    extended | again | denied
local want, most = mode_of(ARGV[4])
local ttl, fence, gen, who = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local size = tonumber(ARGV[9] or '0')

purge()
local again = know('again')

-- Given back, though the lock may stay: a renewal that comes late changes nothing, and loses nothing.
local function is_over()
  return has_ended() or cur == me .. ENDED
    or sharing() and call('ZSCORE', HOLDERS, me .. ENDED) ~= false
end

-- Another holder of permits has its slot by now.
local function has_lost_slot()
  local slot = want == 'p' and (who .. '\t'):match('\tslot=(%d+)\t')
  if not slot then
    return false
  end
--+ slots.lua
  return taken_slots()[tonumber(slot)] ~= nil
end

local function may_return()
  if is_over() then
    return false
  end
  if want == 'x' then
    return not cur and (meta.fence < fence or meta.fence == fence and meta.token == me)
  end
  if meta.gen > gen then
    return false
  end
  -- Beside others only if the server forgot this grant too. Else the share was released, and this is a
  -- renewal that was under way for too long.
  if not cur then
    return true
  end
  meta.off = 0 -- it is for whoever returns
  return fits(want, most) and (meta.fence < fence or again == gen) and not has_lost_slot()
end

-- As acquire.lua has it.
if want ~= 'x' then
  who = who .. '\tfence=' .. int(fence)
end

if is_mine(want) then
  -- Promised, but not confirmed in time: now it is. Or forgotten.
  if size > 0 and meta.fence < fence or meta.fence == 0 then
    call('HSET', META, 'fence', int(fence), 'gen', int(gen), 'token', me, 'size', size)
  end
  -- The owner may be another process than at the grant. If memory is short, its record is to last all the same.
  if redis.pcall('SET', WHO, who, 'PX', ttl).err and call('PEXPIRE', WHO, ttl) == 0 then
    call('SET', WHO, who, 'PX', ttl)
  end
  if meta.fence == 0 or ARGV[10] == '1' then
    keep_meta(ttl)
  end
  if want == 'x' then
    call('PEXPIRE', K, ttl)
  else
    place(me, want, ttl)
  end
  return {'extended'}
end

if may_return() then
  call('HSET', META, 'fence', int(math.max(meta.fence, fence)), 'gen', int(gen), 'again', int(gen),
    'token', me, 'size', size)
  if want == 'x' then
    end_hold_offs()
  end
  keep_meta(ttl)
  call('SET', WHO, who, 'PX', ttl)
  place(me, want, ttl)
  return {'again'}
end
-- Of a quorum one server may well refuse, and go on doing so.
if size == 0 and not is_over() then
  count('lost')
  if meta.fence == 0 then
    call('PEXPIRE', META, MONTH)
  end
end
return {'denied'}
