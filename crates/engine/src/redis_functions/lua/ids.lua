-- ids: where they are, when they are due, who holds them.

local IDS = 100

-- What is said of an id beside its place.
local function history_of(tag, id)
  local deliveries, failures = redis.call('HGET', tag .. ':deliveries', id), redis.call('HGET', tag .. ':failures', id)
  if not deliveries then return '' end
  return '; a suspect: deliveries ' .. plain(deliveries) .. ', failures of its own ' .. plain(failures or '0')
end

local function holder_of(claims, fence)
  for _, claim in ipairs(claims) do
    if claim.fence == fence then return worker_of(claim) end
  end
  return 'a worker whose claim is not on record'
end

shows('ids', function(tag, args, now)
  if #args == 0 or #args > IDS then
    error('1 to ' .. digits(IDS) .. " ids are needed: twitter_updater_ids 1 '" .. plain(tag) .. "' ID", 0)
  end
  local lanes, claims, rows = lanes_of(tag), nil, {}
  for _, id in ipairs(args) do
    local found = {}
    local function finds(place, text) found[#found + 1] = { plain(id), place, text } end
    local fence = tonumber(redis.call('ZSCORE', tag .. ':leased', id) or nil)
    if fence and fence <= now then
      finds('leased', 'its lease ran out ' .. span(now - fence) .. ' ago: the next claim takes it over' .. history_of(tag, id))
    elseif fence then
      claims = claims or claims_of(tag, now)
      finds('leased', 'by ' .. holder_of(claims, fence) .. ', for ' .. span(fence - now) .. ' at the most' .. history_of(tag, id))
    end
    for _, lane in ipairs(lanes) do
      local due = tonumber(redis.call('ZSCORE', lane.set, id) or nil)
      if due then
        local when = due > now and 'due in ' .. span(due - now) or 'due, ' .. span(now - due) .. ' late'
        finds('delayed', when .. ', at ' .. date(due) .. ', in ' .. plain(lane.name) .. history_of(tag, id))
      end
    end
    local buried = tonumber(redis.call('ZSCORE', tag .. ':dead', id) or nil)
    if buried then
      local why = redis.call('HGET', tag .. ':dead:why', id)
      finds('dead', 'since ' .. date(buried) .. ': ' .. plain(why or 'no reason is known'))
    end
    if redis.call('ZSCORE', tag .. ':incoming', id) then
      finds('incoming', 'a worker takes it from there within seconds')
    end
    local refused = redis.call('HGET', tag .. ':incoming:refused', id)
    if refused then finds('refused', plain(refused)) end
    if #found == 0 then finds('nowhere', 'its life has ended, or it was never put in: the store knows (twitter-updater dead show ID)') end
    for _, row in ipairs(found) do rows[#rows + 1] = row end
  end
  table_of('lll', rows)
end)
