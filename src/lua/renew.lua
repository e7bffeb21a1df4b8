-- Extends the lease; or sets the lock again where the server has lost it and nobody whom it
-- remembers has come since.
-- ARGV  4  x, s, or pK
--       5  ttl (ms), or what is left of --at-least where that is longer
--       6  the fence and
--       7  the generation of the grant
--       8  who, in full
--       9  of how many servers this is one, in a quorum; may be left out: it is the only one
-- ->    extended | again | denied
local want, most = mode_of(ARGV[4])
local ttl, fence, gen, who = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local size = tonumber(ARGV[9] or '0')

local again

local function may_return()
  if has_ended() then
    return false
  end
  if want == 'x' then
    return not cur and (meta.fence < fence or meta.fence == fence and meta.token == me)
  end
  if meta.gen > gen then
    return false
  end
  -- Beside others only where the server forgot this grant too: else the share was given back,
  -- and this is a renewal that was under way for too long.
  if not cur then
    return true
  end
  meta.off = 0 -- it is for whoever returns
  return fits(want, most) and (meta.fence < fence or again == gen)
end

purge()
if is_mine(want) then
  -- Promised, but not confirmed in time: now it is.
  if size > 0 and tonumber(call('HMGET', META, 'fence')[1] or '0') < fence then
    call('HSET', META, 'fence', int(fence), 'gen', int(gen), 'token', me, 'size', size)
    call('SET', WHO, who, 'PX', ttl)
  end
  if call('PEXPIRE', WHO, ttl) == 0 then
    call('SET', WHO, who, 'PX', ttl)
  end
  -- It may have been given longer than that, to remember a success.
  local known = call('PTTL', META)
  if known == -2 then
    call('HSET', META, 'fence', int(fence), 'gen', int(gen), 'token', me)
  end
  if known < MONTH then
    call('PEXPIRE', META, MONTH + 2 * DAY + ttl)
  end
  if want == 'x' then
    call('PEXPIRE', K, ttl)
  else
    place(me, want, ttl)
  end
  return {'extended'}
end

again = know('again')
if may_return() then
  call('HSET', META, 'fence', int(math.max(meta.fence, fence)), 'gen', int(gen), 'again', int(gen),
    'token', me, 'size', size)
  if want == 'x' then
    call('HSET', META, 'off', '0')
  end
  keep_meta(ttl)
  call('SET', WHO, who, 'PX', ttl)
  place(me, want, ttl)
  return {'again'}
end
-- Of a quorum one server may well refuse, and go on doing so.
if size == 0 then
  count('lost')
  if meta.fence == 0 then
    call('PEXPIRE', META, MONTH)
  end
end
return {'denied'}
