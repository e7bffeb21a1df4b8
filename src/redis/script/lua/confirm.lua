-- The second step on a quorum: makes the fencing token known to a server that promised the lock, so
-- that a later holder there does not miss it. Takes the caller out of the queue in any case.
-- ARGV  4  the fencing token, above the counters of a majority
--       5  ttl (ms)
--       6  when the caller began to wait here (us); 0: it did not
--       7  TEXT for the record who:TOKEN
--       8  under which token the caller waits
-- ->    confirmed | stale
--       stale: the lock is not the caller's here, or the token is no news
local fence, ttl, ticket = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local text, waiter = ARGV[7], ARGV[8]

if call('ZREM', QUEUE, waiter) == 1 then
  call('DEL', companion('who:', waiter), companion('wake:', waiter))
end
local granted, waited_us = know('granted', 'waited_us')
drop_hold_offs(waiter)
-- If the holder were not compared, a late confirmation would count for a lock that another client has
-- taken since, with a smaller token (docs/model).
if cur ~= me or meta.fence > fence or meta.fence == fence and meta.token ~= me then
  return {'stale'}
end
local waited = ticket > 0 and math.max(0, now() - ticket) or 0
call('HSET', META, 'fence', int(fence), 'gen', int(fence), 'token', me,
  'granted', int(granted + 1), 'waited_us', int(waited_us + waited))
keep_meta_today(fence, ttl)
call('SET', WHO, 'X|' .. int(now()) .. '|' .. text, 'PX', ttl)
call('PEXPIRE', K, ttl)
return {'confirmed'}
