-- Sees to it that what was handed over is claimed. A message can go into the socket of somebody who
-- is dead already; so whoever handed on asks here until nobody is left who has not claimed.
-- ARGV  4...  tokens that were handed the lock
-- ->    ok, {those of them, and of others who were handed it now, who have not claimed yet}
local function take_back(token)
  call('DEL', companion('wake:', token), companion('who:', token))
  if cur == token then
    call('DEL', K)
    cur = false
    return
  end
  drop_share(token)
end

purge()
for i = 4, #ARGV do
  local token = ARGV[i]
  local owns = cur == token or sharing() and call('ZSCORE', HOLDERS, token)
  if owns and mode_of(call('GET', companion('who:', token)) or '') then
    -- A waiter that listens has a lease that is longer than that of one that may not: so here
    -- is a message that nobody took though its receiver said it would.
    if call('EXISTS', companion('wake:', token)) == 1
      and call('PTTL', companion('who:', token)) > LEASE + 100 then
      take_back(token)
    else
      handed[#handed + 1] = token
    end
  end
end
if not cur or sharing() then
  know()
  hand_on()
end
return {'ok', handed}
