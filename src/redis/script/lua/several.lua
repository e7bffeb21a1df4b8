-- Takes several locks of one client, each as acquire.lua does, one after the other, up to the first that
-- is not to be had. For that one the client queues; those behind it are left alone.
-- KEYS  the locks, in the order in which they are taken
-- ARGV  1        the caller's token
--       2...13   what acquire.lua has as its ARGV 4...15, for them all; but the ticket and what is known of a
--                former holder (5, 7, 8) are those of the first, and the success (10, 11) is asked
--       14       of the lock with this number; 0: of none
--       15...    for each lock how the names of its companions begin and end
-- ->    {what acquire.lua answers} for each lock up to that one
local function take(KEYS, ARGV)
--+ prelude.lua
--+ acquire.lua
end

-- settled: the server has been up for long enough, as a grant says that was no claim. Then the others
-- need not ask: INFO takes longer than all the rest.
local answers, settled = {}, ARGV[13] == '0'
for i, key in ipairs(KEYS) do
  local head, tail = ARGV[13 + 2 * i], ARGV[14 + 2 * i]
  local args = {head, tail, unpack(ARGV, 1, 13)}
  local keys = {key}
  for _, word in ipairs({'meta', 'holders', 'queue', 'who:' .. args[3], 'wake:' .. args[3]}) do
    keys[#keys + 1] = head .. word .. tail
  end
  if i > 1 then
    args[7], args[9], args[10] = '0', '0', '0'
  end
  if i ~= tonumber(ARGV[14]) then
    args[12], args[13] = '0', ''
  end
  local asks = not settled and redis.call('GET', key) ~= args[3]
  if settled then
    args[15] = '0'
  end
  answers[i] = take(keys, args)
  settled = settled or asks and answers[i][1] == 'granted' and not answers[i][6]
  if answers[i][1] ~= 'granted' then
    break
  end
end
return answers
