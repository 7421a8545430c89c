-- Sends prepared requests one after the other and reports in JSON: wrk -s wrk.lua … URL -- FILE
-- The file holds the requests as they go over the wire, each with a zero byte behind it.

local requests, at = {}, 0
repeated = 0
local thread

function setup(started)
  thread = started
end

function init(args)
  local file = assert(io.open(args[1], "rb"))
  for request in file:read("*a"):gmatch("([^%z]+)%z") do
    requests[#requests + 1] = request
  end
  file:close()
end

function request()
  at = at + 1
  if at > #requests then
    at = 1
    repeated = 1
  end
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"count": %d, "seconds": %f, "repeated": %s, "failed": %d, "errors": %d, "p50": %f, "p99": %f}\n',
    summary.requests, summary.duration / 1e6, thread:get("repeated") == 1 and "true" or "false", errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
