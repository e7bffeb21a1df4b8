-- Handing on. Stands in the scripts that do, where they need it: Lua makes a function when it comes to
-- it, and the usual case has ended by then.

-- Shares that are taken from here on are no longer of the generation of those before.
local function next_generation()
  meta.fence = next_fence()
  meta.gen = meta.fence
  call('HSET', META, 'fence', int(meta.fence), 'gen', int(meta.gen))
  keep_meta(0)
end

-- A message says as well whether its receiver listened by its own word: only then is it a proof of death if
-- it is not read (verify.lua).
local function tell(token, message)
  local wake = companion('wake:', token)
  local listens = call('PTTL', companion('who:', token)) > LEASE + 100
  call('RPUSH', wake, listens and message .. LISTENS or message)
  call('PEXPIRE', wake, MESSAGE)
end

-- Has the first in the queue look in a while. Until it listens again it has the short lease of one
-- that may not be listening: see tell. brief: but no longer than it has; else those that ask for a
-- lock that is held off, and leave again, would keep a dead one alive. head: if it is known already.
local function tell_head(after, brief, head)
  head = head or call('ZRANGE', QUEUE, 0, 0)[1]
  if head then
    local who = companion('who:', head)
    tell(head, 'look ' .. int(after))
    if not brief or call('PTTL', who) > LEASE then
      call('PEXPIRE', who, LEASE)
    end
  end
end

-- Has all waiters ask again that a success on record would do for.
local function tell_asking()
  local asks, queued = false, call('ZRANGE', QUEUE, 0, -1)
  for _, token in ipairs(queued) do
    local who = companion('who:', token)
    if ((call('GET', who) or '') .. '\t'):find('\tasks=1\t', 1, true) then
      asks = true
      tell(token, 'done')
      call('PEXPIRE', who, LEASE)
    end
  end
  if not asks then
    call('HSET', META, 'asks', '0')
  end
end

-- On a quorum no server can hand the lock on alone. It wakes the first waiter that lives, which then
-- tries, and the next ones one after the other later, in case those before them are dead. A herd of them
-- would only split the votes.
local function call_next()
  for _ = 1, MOST do
    local waiting = call('ZRANGE', QUEUE, 0, FEW)
    local first = waiting[1]
    if not first then
      return
    end
    if call('GET', companion('who:', first)) then
      tell_head(0, true)
      for place = 2, #waiting do
        tell(waiting[place], 'look ' .. (place - 1) * CLAIM)
      end
      return
    end
    call('ZREM', QUEUE, first)
  end
end

-- got: the caller is one of them.
local got = false

-- Puts a lock that is free, or shared, into the names of the waiters that are next, for the time of a
-- claim. Passes over waiters with an expired lease. A writer at the head blocks later readers. The next
-- waiter is told to look for itself when the claim must have come: the giver may be dead by then as
-- well. If many wait, one of them will look by then in any case. verify may pass over many dead in a
-- row, and tells none. For a waiter with a message looks like one that is on its way back to listening.
-- head: the first waiter, if it is known already.
local function hand_on(tells, head)
  if meta.size > 0 then
    return
  end
  local before = #handed
  while #handed < MOST do
    head = head or call('ZRANGE', QUEUE, 0, 0)[1]
    if not head then
      break
    end
    local want, most = mode_of(call('GET', companion('who:', head)) or '')
    if want and not fits(want, most) then
      break
    end
    call('ZREM', QUEUE, head)
    if want then
      if not cur and want ~= 'x' then
        next_generation()
      end
      place(head, want, CLAIM)
      if head == me then
        got = true
      else
        tell(head, 'go')
        handed[#handed + 1] = head
      end
      if want == 'x' then
        break
      end
    end
    head = nil
  end
  local left = tells and #handed > before and call('ZRANGE', QUEUE, 0, FEW - 1) or {}
  if left[1] and #left < FEW then
    tell_head(CLAIM + 5, false, left[1])
  end
end
