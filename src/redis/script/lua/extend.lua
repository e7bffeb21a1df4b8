-- Extends an exclusive lock without a look at its companions: for the time in which a Cluster moves them,
-- one by one, to another node. There is one key in KEYS then; nothing is concluded from its absence.
-- ARGV  4  ttl (ms), or what is left of --at-least if that is longer
--       5  1: the caller is a holder inside the token, which may have ended; may be left out
-- ->    extended | unknown
if cur ~= me and (ARGV[5] ~= '1' or cur ~= me .. ENDED) then
  return {'unknown'}
end
-- Never shorter: holders inside one another each have a TTL of their own.
call('PEXPIRE', K, int(math.max(tonumber(ARGV[4]), call('PTTL', K))))
return {'extended'}
