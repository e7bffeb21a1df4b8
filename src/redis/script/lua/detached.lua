-- Stands before renew.lua and release.lua if a token is all that the caller has (detached_renew.lua,
-- detached_release.lua): learns the rest from the holder's record. Ends here, with nothing changed, unless the token is that of a detached lock
-- that is still held.
-- ARGV  4  before renew.lua: how long it is to live from now on (ms), 0: for as long as it was acquired
--          for; before release.lua: ''
-- ->    denied: the token is wrong, or its time is over
--       attended: it is that of a holder that renews its lock itself
--       ended, {handed}: it was released before
--       or what renew.lua and release.lua answer
do
  know()
  if has_ended() then
    -- If the first answer was lost, no process knows which waiter it was handed to.
    if cur and not sharing() and mode_of(call('GET', companion('who:', cur)) or '') then
      handed[1] = cur
    end
    return {'ended', handed}
  end

  -- Shares that ran out are no reason to write.
  local share = sharing() and tonumber(call('ZSCORE', HOLDERS, me) or 0)
  local who = (cur == me or share and share >= ms()) and call('GET', WHO) or ''
  local mode, since, text = who:match('^([XSP]%d*)|(%d+)|(.*)$')
  if not mode then
    return {'denied'}
  end
  local function field(name)
    return (text .. '\t'):match('\t' .. name .. '=(%d+)\t')
  end
  if not field('detached') then
    return {'attended'}
  end

  local left = (field('least') or 0) - math.floor((now() - since) / 1000)
  local ttl = tonumber(ARGV[4])
  local rest
  if ttl then
    ttl = math.max(tonumber(ttl > 0 and ttl or field('ttl')), left)
    -- Only this shortens a lease: the first waiter in the queue would look when the old lease was to
    -- end.
    if ttl < (share and share - ms() or call('PTTL', K)) then
--+ handing.lua
      tell_head(ttl + 5)
    end
    rest = {int(ttl), int(meta.fence), int(meta.gen), who, '0', '1'}
  else
    rest = {int(math.max(0, left)), int(meta.fence), int(meta.gen), since, '0', '0', '0', '', '0'}
  end
  ARGV[4] = mode:lower()
  for i, value in ipairs(rest) do
    ARGV[4 + i] = value
  end
end
