-- Extends an exclusive lock without a look at its companions: for the time in which a Cluster moves them,
-- one by one, to another node. There is one key in KEYS then; nothing is concluded from its absence.
-- ARGV  4  ttl (ms), or what is left of --at-least if that is longer
-- ->    extended | unknown
if cur ~= me then
  return {'unknown'}
end
call('PEXPIRE', K, ARGV[4])
return {'extended'}
