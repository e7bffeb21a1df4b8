-- Gives back whatever the caller has: the lock, a share, a request that may have landed, its place
-- in the queue; then hands on. May be repeated.
-- ARGV  4  x, s, or pK
--       5  0, or let it expire then instead (ms)
--       6  the fence and
--       7  the generation of the grant; 0: knows of none
--       8  when it was granted (us)
--       9  1: a loss is news, and counts
--      10  1: COMMAND ended well, which is put on record
--      11  for how long a client may ask for that (ms)
--      12  put it on record under this ID as well; '': under none
--      13  how long that record lives (ms)
--      14  until when the caller's lease lasts in any case, renewals included (us); may be left out
--      15  the exit code of COMMAND; '': none has run; may be left out
--      16  when it began (us); below 0: that long ago
--      17  TEXT of what has run it
--      18  on a quorum: the waiter whose place in the queue goes as well; may be left out
-- ->    released | gone | lost, {handed}
--       gone: it was not there, and no client that the server remembers has come since the grant, or no
--       grant is known
local want = mode_of(ARGV[4])
local left, fence, gen = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local since, news = tonumber(ARGV[8]), ARGV[9] == '1'
local success, cooldown, once = ARGV[10] == '1', tonumber(ARGV[11]), ARGV[12]
local proof = tonumber(ARGV[14] or 0)
local exit, began = ARGV[15] or '', tonumber(ARGV[16] or 0)
local waiter = ARGV[18] or me
local result, rank, look = 'released', false, false

local held_us, asks = know('held_us', 'asks')
purge()
local repeated, known, known_gen = has_ended(), meta.fence, meta.gen
local mine = is_mine(want)
-- What the lock calls the caller.
local name = me
if not mine and (cur == me .. ENDED or sharing() and call('ZSCORE', HOLDERS, me .. ENDED)) then
  mine, name = true, me .. ENDED -- repeated
end

-- The lock, or the share, has no owner any longer.
local function free()
  if cur == name then
    call('DEL', K, WHO, WAKE)
    cur = false
    return
  end
  local before = latest()
  local last = drop_share(name)
  call('DEL', WHO, WAKE)
  look = last and last < before and last - ms()
  if not last and held_off() == 0 then
    -- A renewal of ours that comes late finds a later generation. Not while others may return.
    meta.fence = next_fence()
    meta.gen = meta.fence
  end
end

-- It stays for --at-least, though its owner is none any longer.
local function keep()
  local last = int(ms() + left)
  if sharing() then
    call('ZREM', HOLDERS, me)
    call('ZADD', HOLDERS, last, me .. ENDED)
    keep_shares()
  else
    call('PEXPIRE', K, left) -- first, as a server without memory refuses a script that begins with SET
    call('SET', K, me .. ENDED, 'PX', left)
    cur = me .. ENDED
  end
  call('PEXPIRE', WHO, left)
  look = left
end

if mine and left > 0 then
  keep()
elseif mine then
  free()
end
if not mine or waiter ~= me then
  rank = call('ZRANK', QUEUE, waiter)
  if rank then
    call('ZREM', QUEUE, waiter)
    count('timeouts')
  end
  local who = companion('who:', waiter)
  call('DEL', who, companion('wake:', waiter), mine and who or WHO)
  drop_hold_offs(waiter)
end
if not mine then
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
    -- Repeated because the answer was lost: so no process knows which waiter it was handed to.
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
-- If its only holder releases it, the server need not keep off for that holder any longer. If the
-- server has forgotten that holder, its lease proves that no other had the lock. Without that proof the
-- holder may have lost it to another, which the server has forgotten as well, and which may come back.
-- So may other holders of a share.
if want == 'x' and (mine or result == 'gone' and now() < proof) then
  end_hold_offs()
end
-- Before the lock is handed to a waiter, so that this waiter sees it.
if exit ~= '' and result ~= 'lost' and not repeated then
  began = int(began > 0 and began or now() + began)
  local run = began .. '|' .. int(now()) .. '|' .. exit .. '|' .. ARGV[17]
  change('last_run', run)
  if success then
    change('success', began)
    change('last_success', run)
  end
end
if success and result ~= 'lost' then
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

-- The usual case: no waiter.
local head = call('ZRANGE', QUEUE, 0, 0)[1]
if not head then
  return {result, handed}
end
--+ handing.lua
if meta.size > 0 then
  -- A client that only gives an attempt back tries again itself.
  if not cur and fence > 0 then
    call_next()
  end
elseif not cur or sharing() then
  hand_on(true, head)
end
-- They end without the lock, though it stays, or goes to others.
if success and asks > 0 and result ~= 'lost' then
  tell_asking()
end
if #handed == 0 then
  if not cur and held_off() > 0 then
    look = math.ceil((held_off() - now()) / 1000)
  end
  if look then
    tell_head(look, not cur)
  elseif rank == 0 and cur then
    tell_head(0)
  end
end
return {result, handed}
