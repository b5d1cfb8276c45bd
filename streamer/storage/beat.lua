-- Writes the heartbeat of a worker with the time of Redis, so that the clocks of workers and readers do not matter.
--
-- KEYS[1]  streamer:workers
-- ARGV[1]  the worker's id
-- ARGV[2]  JSON object of its status, without `at`
-- ARGV[3]  ISO time for `at`, used only where the account may not ask Redis for its time
-- Reply: {1 if the worker had no heartbeat, else 0; the heartbeat's `at`}

local function date(days)
  -- Days since 1970 as year, month, day. Years are counted from March, so that a leap day is the last day.
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor(
    (of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  return year + era * 400 + (month <= 2 and 1 or 0), month, day
end

local at = ARGV[3]
local now = redis.pcall('TIME')
if not now.err then
  local seconds = tonumber(now[1])
  local of_day = seconds % 86400
  local year, month, day = date(math.floor(seconds / 86400))
  at = string.format('%04d-%02d-%02dT%02d:%02d:%02d.%06d+00:00', year, month, day,
    math.floor(of_day / 3600), math.floor(of_day % 3600 / 60), of_day % 60, tonumber(now[2]))
end

local status = string.sub(ARGV[2], 2)
local heartbeat = '{"at":"' .. at .. '"' .. (status == '}' and '' or ',') .. status
return { redis.call('HSET', KEYS[1], ARGV[1], heartbeat), at }
