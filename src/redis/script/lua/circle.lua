-- A waiter that runs under other dlocks publishes what it waits for, and looks whether that waits for
-- one of them in turn. Looks at locks in other hash slots too: so not in a Cluster.
-- ARGV  4     its ticket
--       5     the proof that it lives which another one asked for; '': none did
--       6     go only by waiters that have given this proof; '': by any
--       7     ask those in a circle for this proof; '': publish only
--       8...  where to publish, and for which outer token, in turns
-- ->    none
--       older: there is a circle, and one in it has come later
--       circle, {a holder's token, the lock it waits for, ...}
-- The records: waits:T, hash: waiter by [its token, ticket, proof, K, queue, holders, ARGV 1, ARGV 2].
local LIFE = 60000
local ticket, proof, proven, ask = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local outer, path, seen = {}, {}, {}

local record = cjson.encode({me, ticket, proof, K, QUEUE, HOLDERS, ARGV[1], ARGV[2]})
for i = 8, #ARGV, 2 do
  call('HSET', ARGV[i], me, record)
  call('PEXPIRE', ARGV[i], LIFE)
  outer[ARGV[i + 1]] = true
end
if ask == '' then
  return {'none'}
end

-- Of permits any may come free; and what --at-least alone keeps is held by no process.
local function holders_of(key, shares, head, tail)
  local value = redis.pcall('GET', key)
  local names = type(value) == 'string' and value ~= WORDS.p and #value < 120 and {value} or {}
  local holders = {}
  if value == WORDS.s then
    names = call('ZRANGE', shares, 0, -1)
  end
  for _, name in ipairs(names) do
    if not name:find(ENDED .. '$') then
      holders[#holders + 1] = name
    end
  end
  return holders
end

local function walk(key, shares, head, tail)
  for _, holder in ipairs(holders_of(key, shares, head, tail)) do
    if outer[holder] then
      return holder
    end
    if not seen[holder] then
      seen[holder] = true
      for _, text in ipairs(call('HVALS', head .. 'waits:' .. holder .. tail)) do
        local r = cjson.decode(text)
        if call('ZSCORE', r[5], r[1]) and (proven == '' or r[3] == proven) then
          path[#path + 1] = {holder = holder, waiter = r}
          local last = walk(r[4], r[6], r[7], r[8])
          if last then
            return last
          end
          path[#path] = nil
        end
      end
    end
  end
end

if not walk(K, HOLDERS, ARGV[1], ARGV[2]) then
  return {'none'}
end
-- The waiter that came last may have looked when others had not published yet: then this makes it look
-- again.
for _, step in ipairs(path) do
  local wake = step.waiter[7] .. 'wake:' .. step.waiter[1] .. step.waiter[8]
  call('RPUSH', wake, 'prove ' .. ask)
  call('PEXPIRE', wake, MESSAGE)
  -- Until it listens again it must not seem to: see verify.lua.
  local who = step.waiter[7] .. 'who:' .. step.waiter[1] .. step.waiter[8]
  if call('PTTL', who) > LEASE then
    call('PEXPIRE', who, LEASE)
  end
end
local list = {}
for _, step in ipairs(path) do
  local waiter = step.waiter
  local later = tonumber(waiter[2]) - tonumber(ticket)
  if later > 0 or later == 0 and waiter[1] > me then
    return {'older'}
  end
  list[#list + 1] = step.holder
  list[#list + 1] = waiter[4]
end
return {'circle', list}
