-- Holders inside a holder: each is a dlock that takes the lock again below one that has it. `inner` of that
-- one's token lists them, and the lock lasts at least as long as each, whatever becomes of the holder
-- around them. Stands in the scripts that need it, where they need it: see handing.lua.

-- Stands in the list for --at-least of a holder that has ended. No token is like that.
local LEAST = 'least'

-- What the lock calls the token: as it is, or ended; nil: it does not hold the lock.
local function name_of(token)
  for _, name in ipairs({token, token .. ENDED}) do
    if cur == name or sharing() and call('ZSCORE', HOLDERS, name) then
      return name
    end
  end
end

-- Until when the lock is kept for the list of a token (ms; nil: it is empty), and whether anybody
-- lives in it.
local function kept_until(token)
  local key = companion('inner:', token)
  call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(ms()))
  local last = latest(key)
  return last, (last and call('ZCARD', key) > (call('ZSCORE', key, LEAST) and 1 or 0)) == true
end

-- How long the lock is held by that name from now on (ms).
local function left_of(name)
  if sharing() then
    return (tonumber(call('ZSCORE', HOLDERS, name)) or 0) - ms()
  end
  return call('PTTL', K)
end

-- Lists a holder inside the token for so long (ms); `who` is its record.
local function enter(token, inner, ttl, who)
  local key = companion('inner:', token)
  call('ZADD', key, int(ms() + ttl), inner)
  call('PEXPIREAT', key, latest(key))
  call('SET', companion('who:', inner), who, 'PX', ttl)
  call('HSET', META, 'inner', '1')
  if meta.fence == 0 then
    keep_meta(ttl)
  end
end

-- The holder by that name is to last for at least so long (ms).
local function outlast(name, ttl)
  if left_of(name) < ttl then
    if sharing() then
      call('ZADD', HOLDERS, int(ms() + ttl), name)
      keep_shares()
    else
      call('PEXPIRE', K, ttl)
    end
  end
  if call('PTTL', who_of(name)) < ttl then
    call('PEXPIRE', who_of(name), ttl)
  end
end

-- The holder has ended: the lock lasts until then (ms), and the one inside that stays longest is shown as
-- its holder. The pids of all.
local function keep_for(token, last)
  local name, left, pids, first = token .. ENDED, last - ms(), {}, nil
  for _, inner in ipairs(call('ZREVRANGE', companion('inner:', token), 0, -1)) do
    local who = call('GET', companion('who:', inner))
    first = first or who
    pids[#pids + 1] = who and who:match('\tpid=(%d+)') or nil
  end
  call('PEXPIREAT', companion('inner:', token), last)
  if sharing() then
    call('ZREM', HOLDERS, token)
    call('ZADD', HOLDERS, int(last), name)
    keep_shares()
  else
    call('PEXPIRE', K, left) -- first, as a server without memory refuses a script that begins with SET
    call('SET', K, name, 'PX', left)
    cur = name
  end
  if first then
    call('SET', who_of(name), first, 'PX', left)
  else
    call('PEXPIRE', who_of(name), left)
  end
  return pids
end
