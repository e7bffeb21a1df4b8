-- Sees to it that what was handed over is claimed. A message can go into the socket of a waiter that is
-- dead already, and then no answer comes. So the process that handed the lock on asks here, after a
-- round trip and again, until no receiver is left that has not claimed.
-- ARGV  4...  tokens that were handed the lock
-- ->    ok, {those of them, and of others that were handed it now, that have not claimed yet}
--+ handing.lua
local function take_back(token)
  call('DEL', companion('wake:', token), companion('who:', token))
  if cur == token then
    call('DEL', K)
    cur = false
    return
  end
  drop_share(token)
end

-- The receiver is dead if a message is unread though it listened when that came. One that was on its way to
-- listening has the second of a claim, however slow it is.
local function is_dead(token)
  local unread = call('LINDEX', companion('wake:', token), 0)
  return unread and unread:sub(-#LISTENS) == LISTENS
end

-- If the record is gone, either the claim did not come and the lease ran out, or the record of a holder
-- was evicted. But that holder has its lock for longer.
local function is_unclaimed(token, share)
  local who = call('GET', companion('who:', token))
  if who then
    return mode_of(who) ~= nil
  end
  return (share and share - ms() or call('PTTL', K)) <= CLAIM
end

purge()
for i = 4, #ARGV do
  local token = ARGV[i]
  local share = sharing() and call('ZSCORE', HOLDERS, token)
  if (cur == token or share) and is_unclaimed(token, share) then
    if is_dead(token) then
      take_back(token)
    else
      handed[#handed + 1] = token
    end
  end
end
if not cur or sharing() then
  know()
  hand_on(false)
end
return {'ok', handed}
