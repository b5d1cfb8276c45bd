-- Reads a run as it stands at one moment, or what of it a reader does not know yet.
--
-- KEYS[1]  streamer:{RUN}:versions. Every other key shares its prefix and its hash tag, hence its slot.
-- ARGV[1]  JSON {kinds: {run | agent_model | tier | within | comparisons | in_flight | tasks: true},
--          known: {SUFFIX: "epoch:state_version"}}
--          known leaves out summaries of the same version; {} reads them all
-- Reply: {the fields and values of the versions hash, SUFFIX, value, SUFFIX, value, ...}; the values of
--          in_flight and tasks, which are hashes, are their fields and values

local HASHES = { in_flight = true, tasks = true }
local wanted = cjson.decode(ARGV[1])
local prefix = string.sub(KEYS[1], 1, -#'versions' - 1)

local function kind_of(suffix)
  local kind = string.match(suffix, '^[^:]*')
  if kind == 'tier' and string.match(suffix, '^tier:[^:]*:') then return 'within' end
  return kind
end

local versions = redis.call('HGETALL', KEYS[1])
local reply = { versions }
for at = 1, #versions, 2 do
  local suffix, version = versions[at], versions[at + 1]
  if wanted.kinds[kind_of(suffix)] and wanted.known[suffix] ~= version then
    table.insert(reply, suffix)
    table.insert(reply, redis.call(HASHES[suffix] and 'HGETALL' or 'GET', prefix .. suffix))
  end
end
return reply
