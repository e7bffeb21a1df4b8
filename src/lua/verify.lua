-- Sees to it that what was handed over is claimed. A message can go into the socket of somebody who
-- is dead already, and then nobody answers it; so whoever handed on asks here, after a round trip and
-- again, until nobody is left who has not claimed.
-- ARGV  4...  tokens that were handed the lock
-- ->    ok, {those of them, and of others who were handed it now, who have not claimed yet}
local function take_back(token)
  call('DEL', companion('wake:', token), companion('who:', token))
  if cur == token then
    call('DEL', K)
    cur = false
    return
  end
  call('ZREM', HOLDERS, token)
  local last = latest()
  if last then
    call('PEXPIREAT', HOLDERS, last)
    call('PEXPIREAT', K, last)
  else
    call('DEL', K)
    cur = false
  end
end

-- Nobody is there to claim it. A waiter that listens has a lease that is longer than that of one
-- that may not: so a message that is still unread, of whom said that he would read it. Or of whom
-- was told before to look, and has not even read that for a tenth of a second; this alone counts
-- for one that was handed the lock just now.
local function is_dead(token, just_now)
  local unread = call('LINDEX', companion('wake:', token), 0)
  if not unread then
    return false
  end
  local lease = call('PTTL', companion('who:', token))
  return not just_now and lease > LEASE + 100 or unread ~= 'go' and lease < LEASE - 100
end

local function owns(token)
  return cur == token or sharing() and call('ZSCORE', HOLDERS, token)
end

local pending = {}
local function look_after(tokens, from, just_now)
  for i = from, #tokens do
    local token = tokens[i]
    if owns(token) and mode_of(call('GET', companion('who:', token)) or '') then
      if is_dead(token, just_now) then
        take_back(token)
      else
        pending[#pending + 1] = token
      end
    end
  end
end

purge()
look_after(ARGV, 4, false)
while (not cur or sharing()) and #pending < MOST do
  if not meta then
    know()
  end
  handed = {}
  hand_on()
  if #handed == 0 then
    break
  end
  look_after(handed, 1, true)
end
return {'ok', pending}
