-- Gives back whatever the caller has: the lock, a share, a request that may have landed, its place
-- in the queue; then hands on. May be repeated.
-- ARGV  4  x, s, or pK
--       5  0, or let it expire then instead (ms)
--       6  the fence and
--       7  the generation of the grant; 0: knows of none
--       8  when it was granted (us)
--       9  1: a loss is news, and counts
--      10  1: COMMAND ended well, which is put on record
--      11  for how long somebody may ask for that (ms)
--      12  put it on record under this ID as well; '': under none
--      13  how long that record lives (ms)
-- ->    released | gone | lost, {handed}
--       gone: it was not there, and nobody whom the server remembers has come since the grant, or no
--       grant is known
local want = mode_of(ARGV[4])
local left, fence, gen = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local since, news = tonumber(ARGV[8]), ARGV[9] == '1'
local success, cooldown, once = ARGV[10] == '1', tonumber(ARGV[11]), ARGV[12]
local result, rank, look = 'released', false, false

local function leave_share()
  local before = latest()
  local last = drop_share(me)
  call('DEL', WHO, WAKE, companion('waits:', me))
  if last then
    look = last < before and last - ms()
  else
    -- A renewal of ours that comes late finds a later generation.
    meta.fence = next_fence()
    meta.gen = meta.fence
  end
end

local function shorten()
  if want == 'x' then
    call('PEXPIRE', K, left)
  else
    call('ZADD', HOLDERS, 'XX', ms() + left, me)
    local last = latest()
    call('PEXPIREAT', HOLDERS, last)
    call('PEXPIREAT', K, last)
  end
  call('PEXPIRE', WHO, left)
  look = left
end

local function ended(repeated)
  if repeated then
    return meta.ended
  end
  local tokens = {me}
  for token in meta.ended:gmatch('%S+') do
    if #tokens < ENDED then
      tokens[#tokens + 1] = token
    end
  end
  return table.concat(tokens, ' ')
end

know()
purge()
local repeated = has_ended()
if is_mine(want) then
  if left > 0 then
    shorten()
  elseif want == 'x' then
    call('DEL', K, WHO, WAKE, companion('waits:', me))
    cur = false
  else
    leave_share()
  end
  if since > 0 and not repeated then
    meta.held_us = meta.held_us + math.max(0, now() - since)
  end
else
  rank = call('ZRANK', QUEUE, me)
  if rank then
    call('ZREM', QUEUE, me)
    meta.timeouts = meta.timeouts + 1
  end
  call('DEL', WHO, WAKE, companion('waits:', me))
  if not repeated and not rank then
    if fence == 0 or want == 'x' and not cur and meta.fence <= fence
      or want ~= 'x' and (not cur or cur == WORDS[want]) and meta.gen <= gen then
      result = 'gone'
    else
      result = 'lost'
      meta.lost = meta.lost + (news and 1 or 0)
    end
  elseif repeated and cur and not sharing()
    and mode_of(call('GET', companion('who:', cur)) or '') then
    -- Repeated because the answer was lost: so nobody knows to whom it was handed.
    handed[1] = cur
  end
end

-- With the token cleared and the counter not below ours, no late renewal sets the lock again. What
-- is given back need not be waited for any longer.
local known = meta.fence > 0
local changes = {'ended', ended(repeated), 'fence', int(math.max(meta.fence, fence)), 'gen', int(math.max(meta.gen, gen)),
  'timeouts', int(meta.timeouts), 'lost', int(meta.lost), 'held_us', int(meta.held_us)}
if meta.token == me then
  changes[#changes + 1] = 'token'
  changes[#changes + 1] = ''
end
if meta.off > 0 and fence > 0 and result ~= 'lost' then
  meta.off = 0
  changes[#changes + 1] = 'off'
  changes[#changes + 1] = '0'
end
-- Before anybody is handed the lock, so that whoever is sees it.
if success and result ~= 'lost' then
  changes[#changes + 1] = 'success'
  changes[#changes + 1] = int(now())
  if cooldown > math.max(MONTH, meta.keep) then
    meta.keep, known = cooldown, false
    changes[#changes + 1] = 'keep'
    changes[#changes + 1] = int(cooldown)
  end
  if once ~= '' then
    call('SET', companion('once:', once), int(now()), 'PX', ARGV[13])
  end
end
call('HSET', META, unpack(changes))
if not known then
  keep_meta(0)
end

if meta.size > 0 then
  -- Who only gives an attempt back tries again himself.
  if not cur and fence > 0 then
    call_next()
  end
elseif not cur or sharing() then
  hand_on(true)
end
if #handed == 0 then
  if look then
    tell_head(look)
  elseif rank == 0 and cur then
    tell_head(0)
  end
end
return {result, handed}
