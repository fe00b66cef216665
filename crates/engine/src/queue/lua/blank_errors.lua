-- Removes examples and messages of recorded errors that name one of `names` (a set with lower-case keys). Included by forget.lua and forget_errors.lua.
-- The matching rule is that of RecordedError::forget in Rust.
local function blank_errors(names)
  local flat = redis.call('HGETALL', key('errors'))
  for i = 1, #flat, 2 do
    local is_read, error = pcall(cjson.decode, flat[i + 1])
    local message = is_read and type(error.message) == 'string' and string.lower(error.message) or ''
    local is_named = false
    for part in string.gmatch(message, '[^%s"\'`,;()<>]+') do
      is_named = is_named or names[(string.gsub(string.gsub(part, '^[.:@]+', ''), '[.:@]+$', ''))]
    end
    for word in string.gmatch(message, '[%w_]+') do is_named = is_named or names[word] end
    local has_example = is_read and type(error.example) == 'string' and names[string.lower(error.example)]
    if is_named then error.message = '' end
    if has_example then error.example = nil end
    if is_named or has_example then redis.call('HSET', key('errors'), flat[i], cjson.encode(error)) end
  end
end
