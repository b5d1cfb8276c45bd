-- Writes one run, or what changed in it, in one step; older versions never over newer ones.
--
-- KEYS[1]  streamer:{RUN}:versions. Every other key shares its prefix and its hash tag, hence its slot.
-- ARGV[1]  JSON {expire_seconds (0: never), history_length, channel, metrics: [METRIC]}
-- ARGV[2]  the mark of the write that the changes follow; "" for changes that follow no matter what
-- ARGV[3]  the mark that this write leaves under streamer:{RUN}:writer if the run exists; "" for none
-- ARGV[4]  "changes", or "whole": what is not named here, and not newer than the run, is gone
-- then, for each change, three arguments:
--   suffix   of the key: run | agent_model:A:M | tier:T | tier:T:A:M | comparisons | in_flight | tasks
--   plan     JSON {version: "epoch:state_version", deleted: bool, board: {METRIC: score or false},
--                  history: [field, value, ...], update: message}; history and update only for news
--   value    the summary's bytes; of in_flight and tasks, two hashes, the JSON list [field, value, ...];
--            "" for a tombstone
-- Reply: {changes refused because something newer was seen, the run's benchmark before ("" for none)}, or
-- {-1, ""}: nothing was written, because another write came between, or Redis lost its data

local options = cjson.decode(ARGV[1])
local follows, mark, mode = ARGV[2], ARGV[3], ARGV[4]
local FIRST_CHANGE = 5
local versions = KEYS[1]
local prefix = string.sub(versions, 1, -#'versions' - 1)
local DELETED = 'deleted' -- field of versions: when the run was deleted; what is older stays out
local HASHES = { in_flight = true, tasks = true }
local PARTS_AT_ONCE = 4000 -- of a hash: Lua passes no more than some thousand arguments
local NAMED = 'metrics/' -- how the METRIC of a named metric begins
local NAMED_BOARDS = 'named_boards' -- set of those that have had a board
local deleted_before = redis.call('HGET', versions, DELETED)

local function older(one, other)
  local epoch, offset = string.match(one, '^(%d+):(%-?%d+)$')
  local other_epoch, other_offset = string.match(other, '^(%d+):(%-?%d+)$')
  if epoch ~= other_epoch then return tonumber(epoch) < tonumber(other_epoch) end
  return tonumber(offset) < tonumber(other_offset)
end

local function refused(suffix, version)
  local seen = redis.call('HMGET', versions, suffix, DELETED)
  return (seen[1] and older(version, seen[1])) or (seen[2] and older(version, seen[2]))
end

-- The index set that lists a key, and the member it is listed as.
local function index_of(suffix)
  local label = string.match(suffix, '^agent_model:(.*)$')
  if label then return 'agent_models', label end
  local tier, within = string.match(suffix, '^tier:([^:]*):(.*)$')
  if tier then return 'tier:' .. tier .. ':agent_models', within end
  tier = string.match(suffix, '^tier:(.*)$')
  if tier then return 'tiers', tier end
  return nil, nil
end

-- Every METRIC that may have a board: the built-in ones, and named ones that had one.
local function all_metrics()
  local metrics = redis.call('SMEMBERS', prefix .. NAMED_BOARDS)
  for _, metric in ipairs(options.metrics) do table.insert(metrics, metric) end
  return metrics
end

local function remove(suffix)
  redis.call('DEL', prefix .. suffix)
  local index, member = index_of(suffix)
  if not index then return end
  redis.call('SREM', prefix .. index, member)
  if index ~= 'agent_models' then return end
  for _, metric in ipairs(all_metrics()) do
    redis.call('ZREM', prefix .. 'board:' .. metric, member)
  end
end

local function store(suffix, value, board, known)
  if not known then redis.call('SET', prefix .. suffix, value) end
  local index, member = index_of(suffix)
  if not index then return end
  redis.call('SADD', prefix .. index, member)
  if index ~= 'agent_models' then return end
  for metric, score in pairs(board) do
    if score then redis.call('ZADD', prefix .. 'board:' .. metric, score, member) end
    if string.sub(metric, 1, #NAMED) == NAMED then redis.call('SADD', prefix .. NAMED_BOARDS, metric) end
  end
  for _, metric in ipairs(all_metrics()) do
    if not board[metric] then redis.call('ZREM', prefix .. 'board:' .. metric, member) end
  end
end

-- A deleted run takes along whatever it still has, named by its writer or not.
local function remove_run(version)
  for _, suffix in ipairs(redis.call('HKEYS', versions)) do
    if suffix ~= DELETED and not older(version, redis.call('HGET', versions, suffix)) then
      remove(suffix)
      redis.call('HDEL', versions, suffix)
    end
  end
  redis.call('DEL', prefix .. 'history', prefix .. 'notices', prefix .. 'writer', prefix .. NAMED_BOARDS)
  redis.call('HSET', versions, DELETED, version)
end

local function store_hash(suffix, value)
  local parts = cjson.decode(value)
  redis.call('DEL', prefix .. suffix)
  for first = 1, #parts, PARTS_AT_ONCE do
    local last = math.min(first + PARTS_AT_ONCE - 1, #parts)
    redis.call('HSET', prefix .. suffix, unpack(parts, first, last))
  end
end

local function same_as_stored(suffix, version, value)
  if HASHES[suffix] then return false end
  if value == '' and deleted_before == version then return true end -- a deleted run keeps no other versions
  if redis.call('HGET', versions, suffix) ~= version then return false end
  return (redis.call('GET', prefix .. suffix) or '') == value
end

local function announce(plan)
  local run_deleted_now = redis.call('HGET', versions, DELETED) == plan.version
  if plan.history and not run_deleted_now then
    redis.call('XADD', prefix .. 'history', 'MAXLEN', '~', options.history_length, '*', unpack(plan.history))
  end
  if plan.update then redis.call('PUBLISH', options.channel, plan.update) end
end

local function apply(suffix, plan, value)
  local known = same_as_stored(suffix, plan.version, value)
  if plan.deleted then
    remove(suffix)
    if suffix == 'run' then remove_run(plan.version) end
  elseif HASHES[suffix] then
    store_hash(suffix, value)
  else
    store(suffix, value, plan.board, known)
  end
  if not known then
    redis.call('HSET', versions, suffix, plan.version)
    announce(plan)
  end
end

-- Keys that the run had before and has no more, at the version of the run.
local function remove_unnamed(named, run_version)
  for _, suffix in ipairs(redis.call('HKEYS', versions)) do
    local absent = suffix ~= DELETED and not named[suffix]
    if absent and redis.call('EXISTS', prefix .. suffix) == 1 then
      local seen = redis.call('HGET', versions, suffix)
      if older(seen, run_version) then
        remove(suffix)
        redis.call('HSET', versions, suffix, run_version)
      end
    end
  end
end

local function leave_mark()
  if mark == '' or redis.call('EXISTS', prefix .. 'run') == 0 then
    redis.call('DEL', prefix .. 'writer')
  else
    redis.call('SET', prefix .. 'writer', mark)
  end
end

local function postpone_expiry()
  local suffixes = { 'versions', 'writer', 'history', 'notices', 'agent_models', 'tiers', NAMED_BOARDS }
  for _, metric in ipairs(all_metrics()) do table.insert(suffixes, 'board:' .. metric) end
  for _, suffix in ipairs(redis.call('HKEYS', versions)) do
    table.insert(suffixes, suffix)
    local index = index_of(suffix)
    if index then table.insert(suffixes, index) end
  end
  for _, suffix in ipairs(suffixes) do redis.call('EXPIRE', prefix .. suffix, options.expire_seconds) end
end

local function benchmark_of_stored_run()
  local stored = redis.call('GET', prefix .. 'run')
  local readable, run = pcall(cjson.decode, stored or '{}')
  if readable and type(run) == 'table' and type(run.benchmark) == 'string' then return run.benchmark end
  return ''
end

if follows ~= '' and (redis.call('GET', prefix .. 'writer') or '') ~= follows then return { -1, '' } end

local before = benchmark_of_stored_run()
local older_ones, named, run_version = {}, {}, nil
for at = FIRST_CHANGE, #ARGV, 3 do
  local suffix, plan, value = ARGV[at], cjson.decode(ARGV[at + 1]), ARGV[at + 2]
  named[suffix] = true
  if suffix == 'run' and not plan.deleted then run_version = plan.version end
  if refused(suffix, plan.version) then
    table.insert(older_ones, suffix)
  else
    apply(suffix, plan, value)
  end
end
if mode == 'whole' and run_version then remove_unnamed(named, run_version) end
leave_mark()
if options.expire_seconds > 0 then postpone_expiry() end
return { #older_ones, before, older_ones }
