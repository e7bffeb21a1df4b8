-- The slots of permits. Stands in the scripts that need it, where they need it: see handing.lua. Each
-- holder has one, which its record says: so it is free when the holder is gone.
local function taken_slots()
  local taken, names = {}, cur == WORDS.p and call('ZRANGE', HOLDERS, 0, -1) or {}
  for i, name in ipairs(names) do
    names[i] = who_of(name)
  end
  -- In pieces: Lua's stack takes some thousands of arguments.
  for from = 1, #names, 500 do
    for i, who in ipairs(call('MGET', unpack(names, from, math.min(from + 499, #names)))) do
      local slot = names[from + i - 1] ~= WHO and who and (who .. '\t'):match('\tslot=(%d+)\t')
      if slot then
        taken[tonumber(slot)] = true
      end
    end
  end
  return taken
end
