-- dead: who was set aside last, and why.

shows('dead', function(tag, args)
  local page = redis.call('ZRANGE', tag .. ':dead', 0, number_of(args[1], 20, 1000) - 1, 'REV', 'WITHSCORES')
  if #page == 0 then say('no id is dead') return end
  local ids = {}
  for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
  local rows = { { 'id', 'since', 'why' } }
  for i, why in ipairs(redis.call('HMGET', tag .. ':dead:why', unpack(ids))) do
    rows[#rows + 1] = { plain(ids[i]), date(tonumber(page[2 * i])), plain(why or 'no reason is known') }
  end
  table_of('lll', rows)
  local more = redis.call('ZCARD', tag .. ':dead') - #ids
  if more > 0 then say('and ' .. figure(more) .. ' more, buried earlier') end
end)
