--- :checkhealth mnemo
local client = require("mnemo.client")
local config = require("mnemo.config")

local M = {}

local WAIT_MS = 5000

--- Return the function of Neovim's health report; its names differ before 0.10.
local function reporter(name)
  local health = vim.health or require("health")
  return health[name] or health["report_" .. name]
end

function M.check()
  local start, ok, warn, failed = reporter("start"), reporter("ok"), reporter("warn"), reporter("error")
  start("mnemo")
  if vim.fn.executable(config.options.command) == 1 then
    ok(("the program %s is %s"):format(config.options.command, vim.fn.exepath(config.options.command)))
  else
    warn(("there is no program %s: the daemon is not started by this plugin"):format(config.options.command), {
      "install mnemod: pipx install mnemod",
      'or name the program: require("mnemo").setup({ command = "PATH" })',
    })
  end
  ok("the socket is " .. config.socket_path())
  local namespace, why = config.namespace(vim.fn.getcwd())
  if namespace then
    ok(("the namespace of %s is %s"):format(vim.fn.getcwd(), namespace))
  else
    failed(why)
  end
  local err, status
  local drop = client.request({ method = "GET", path = "/v1/status", timeout_ms = WAIT_MS, is_repeatable = true }, function(e, value)
    err, status = e, value
  end)
  vim.wait(WAIT_MS * 2, function()
    return err or status
  end, 20)
  drop()
  if status and status.state == "ready" then
    ok(("the daemon %s answers: %d memories"):format(status.version, status.memories))
  elseif status then
    warn(("the daemon %s answers, and is %s:"):format(status.version, status.state), status.reasons)
  else
    failed(err and err.message or "the daemon does not answer", { "mnemo doctor" })
  end
end

return M
