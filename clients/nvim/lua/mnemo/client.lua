--- A client of the daemon: asynchronous requests with JSON, which start the daemon if it does not run.
local config = require("mnemo.config")
local http = require("mnemo.http")

local M = {}

local current = {} -- the request of each slot that is under way
local waiting = nil -- the callbacks that wait for the start of the daemon

--- Show a message of the plugin.
function M.notify(text, level)
  vim.notify("mnemo: " .. text, level or vim.log.levels.INFO)
end

--- Run `mnemo up`, and call `done(err)` when the daemon answers or could not be started. Requests that find no daemon at
--- the same time share one start.
local function start_daemon(socket, unreachable, done)
  local command = config.options.command
  if not config.may_start() then
    return done({ code = "unreachable", message = unreachable .. "; start it with: mnemo up" })
  elseif vim.fn.executable(command) == 0 then
    local why = "; it cannot be started, since there is no program %s: install mnemod, or set `command` to its path"
    return done({ code = "unreachable", message = unreachable .. why:format(command) })
  elseif waiting then
    table.insert(waiting, done)
    return
  end
  waiting = { done }
  M.notify("the daemon does not run; starting it …")
  local output = {}
  local function collect(_, lines)
    vim.list_extend(output, lines)
  end
  vim.fn.jobstart({ command, "up" }, {
    env = config.options.socket and { MNEMO_SOCKET = socket } or vim.empty_dict(),
    stderr_buffered = true,
    on_stderr = collect,
    on_exit = function(_, status)
      local callbacks, err = waiting, nil
      waiting = nil
      if status ~= 0 then
        local why = vim.trim(table.concat(output, "\n"))
        err = { code = "unreachable", message = ("`%s up` failed:\n%s"):format(command, why) }
      end
      for _, callback in ipairs(callbacks) do
        callback(err)
      end
    end,
  })
end

--- Return the error in an answer, nil if it has none: `code` and `message` as the daemon states them.
local function refusal(answer, value)
  if answer.status < 400 then
    return nil
  end
  local err = type(value) == "table" and type(value.error) == "table" and value.error or {}
  local message = err.message or ("the daemon answered with status %d"):format(answer.status)
  return { code = err.code or "status", message = message, field = err.field, status = answer.status }
end

--- Return the error in an answer, or nil and the value of its body, which is text if it is not one of JSON.
local function decode(answer)
  if not vim.startswith(answer.headers["content-type"] or "", "application/json") then
    return refusal(answer), answer.body
  end
  local is_json, value = pcall(vim.json.decode, answer.body, { luanil = { object = true, array = true } })
  local err = refusal(answer, is_json and value or nil)
  if not err and not is_json then
    err = { code = "malformed", message = "the daemon's answer is not JSON" }
  end
  return err, not err and value or nil
end

--- Send a request and call `done(err, value, answer)` once, on the main loop. Return a function that drops the request.
---
--- `spec`: `method`, `path`, `body` (a table, or nil), `headers`, `timeout_ms`. A new request with the `slot` of one under
--- way drops that one: its `done` is never called. One that `is_repeatable` is sent again if the connection ends before
--- the answer. `err` has `code`, `message` and, if the daemon answered, `status`.
function M.request(spec, done)
  local socket, state = config.socket_path(), { starts = 0, repeats = 0 }
  local body = spec.body and vim.json.encode(spec.body)
  local headers = vim.tbl_extend("keep", spec.headers or {}, { ["X-Mnemo-Door"] = "cli" })
  local bytes = http.encode(spec.method, spec.path, headers, body)
  local function over(err, value, answer)
    state.is_over = true
    if spec.slot and current[spec.slot] == state then
      current[spec.slot] = nil
    end
    local reason = answer and answer.headers["x-mnemo-degraded"]
    if reason then
      M.notify("the store has a fault: " .. reason, vim.log.levels.WARN)
    end
    done(err, value, answer)
  end
  local function attempt()
    state.drop = http.exchange(socket, bytes, spec.timeout_ms or config.options.timeout_ms, function(err, answer)
      if state.is_over then
        return
      elseif err and err.code == "unreachable" and state.starts == 0 then
        state.starts = 1
        start_daemon(socket, err.message, function(failed)
          if state.is_over then
            return
          elseif failed then
            return over(failed)
          end
          attempt()
        end)
      elseif err and err.code == "interrupted" and spec.is_repeatable and state.repeats == 0 then
        state.repeats = 1
        attempt()
      elseif err then
        over(err)
      else
        local refused, value = decode(answer)
        over(refused, value, answer)
      end
    end)
  end
  local function drop()
    state.is_over = true
    state.drop()
  end
  if spec.slot then
    if current[spec.slot] then
      current[spec.slot].cancel()
    end
    current[spec.slot], state.cancel = state, drop
  end
  attempt()
  vim.defer_fn(function()
    if not state.is_over then
      M.notify("still waiting for the daemon's answer …")
    end
  end, config.options.slow_ms)
  return drop
end

return M
