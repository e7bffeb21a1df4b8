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
--      14  until when the caller's lease lasts in any case, renewals included (us); may be left out
-- ->    released | gone | lost, {handed}
--       gone: it was not there, and nobody whom the server remembers has come since the grant, or no
--       grant is known
local want = mode_of(ARGV[4])
local left, fence, gen = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local since, news = tonumber(ARGV[8]), ARGV[9] == '1'
local success, cooldown, once = ARGV[10] == '1', tonumber(ARGV[11]), ARGV[12]
local proof = tonumber(ARGV[14] or 0)
local result, rank, look = 'released', false, false

local held_us = know('held_us')
purge()
local repeated, known, known_gen = has_ended(), meta.fence, meta.gen
local mine = is_mine(want)
if mine and left > 0 then
  if want == 'x' then
    call('PEXPIRE', K, left)
  else
    call('ZADD', HOLDERS, 'XX', ms() + left, me)
    keep_shares()
  end
  call('PEXPIRE', WHO, left)
  look = left
elseif mine then
  if want == 'x' then
    call('DEL', K, WHO, WAKE, companion('waits:', me))
    cur = false
  else
    local before = latest()
    local last = drop_share(me)
    call('DEL', WHO, WAKE, companion('waits:', me))
    look = last and last < before and last - ms()
    if not last and meta.off <= now() then
      -- A renewal of ours that comes late finds a later generation. Not while others may return.
      meta.fence = next_fence()
      meta.gen = meta.fence
    end
  end
else
  rank = call('ZRANK', QUEUE, me)
  if rank then
    call('ZREM', QUEUE, me)
    count('timeouts')
  end
  call('DEL', WHO, WAKE, companion('waits:', me))
  if not repeated and not rank then
    if fence == 0 or want == 'x' and not cur and meta.fence <= fence
      or want ~= 'x' and (not cur or cur == WORDS[want]) and meta.gen <= gen then
      result = 'gone'
    else
      result = 'lost'
      if news then
        count('lost')
      end
    end
  elseif repeated and cur and not sharing()
    and mode_of(call('GET', companion('who:', cur)) or '') then
    -- Repeated because the answer was lost: so nobody knows to whom it was handed.
    handed[1] = cur
  end
end
if mine and since > 0 and not repeated then
  held_us = held_us + math.max(0, now() - since)
end

-- With the token cleared and the counter not below ours, no late renewal sets the lock again.
local changes = {'held_us', int(held_us)}
local function change(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end
if not repeated then
  -- The last four that gave it back; of those that share it more come in between two tries of one.
  local most = want == 'x' and '^%S+ %S+ %S+' or '^%S+' .. (' %S+'):rep(18)
  local before = meta.ended:match(most) or meta.ended
  change('ended', before == '' and me or me .. ' ' .. before)
end
meta.fence, meta.gen = math.max(meta.fence, fence), math.max(meta.gen, gen)
if meta.fence > known or meta.gen > known_gen then
  change('fence', int(meta.fence))
  change('gen', int(meta.gen))
end
if meta.token == me then
  change('token', '')
end
-- What its only holder gives back need not be waited for any longer. Where the server has forgotten him,
-- his lease proves that he was the one: else it may have forgotten as well that he had lost it to
-- another, who is on his way back. So may others be of those that shared it.
if meta.off > 0 and want == 'x' and (mine or result == 'gone' and now() < proof) then
  meta.off = 0
  change('off', '0')
end
-- Before anybody is handed the lock, so that whoever is sees it.
if success and result ~= 'lost' then
  change('success', int(now()))
  if cooldown > math.max(MONTH, meta.keep) then
    meta.keep = cooldown
    change('keep', int(cooldown))
  end
  if once ~= '' then
    call('SET', companion('once:', once), int(now()), 'PX', ARGV[13])
  end
end
call('HSET', META, unpack(changes))
if known == 0 or success and meta.keep > MONTH then
  keep_meta(0)
end

-- The usual case: nobody waits.
local head = call('ZRANGE', QUEUE, 0, 0)[1]
if not head then
  return {result, handed}
end
--+ handing.lua
if meta.size > 0 then
  -- Who only gives an attempt back tries again himself.
  if not cur and fence > 0 then
    call_next()
  end
elseif not cur or sharing() then
  hand_on(true, head)
end
if #handed == 0 then
  if not cur and meta.off > now() then
    look = math.ceil((meta.off - now()) / 1000)
  end
  if look then
    tell_head(look)
  elseif rank == 0 and cur then
    tell_head(0)
  end
end
return {result, handed}
