-- The cases of the client, run by tests/integration/test_nvim_client.py: `nvim --headless -u NONE -c "luafile …"`.
local root = vim.fn.fnamemodify(debug.getinfo(1, "S").source:sub(2), ":p:h:h")
local given = vim.json.decode(vim.env.MNEMO_TEST)
local WAIT_MS = 60000

-- The client neither makes a global variable nor reads one that does not exist.
local stray = {}
setmetatable(_G, {
  __newindex = function(_, name, value)
    stray[#stray + 1] = "sets " .. name
    rawset(_G, name, value)
  end,
  __index = function(_, name)
    if debug.getinfo(2, "S").source:find(root, 1, true) then
      stray[#stray + 1] = "reads " .. name
    end
  end,
})

vim.opt.runtimepath:append(root)
vim.cmd("runtime plugin/mnemo.lua")
local mnemo, client, config = require("mnemo"), require("mnemo.client"), require("mnemo.config")

local messages, picked = {}, {}
vim.notify = function(text)
  messages[#messages + 1] = text
end
vim.ui.select = function(items, options, choose)
  picked[#picked + 1] = options.format_item(items[1])
  choose(items[1])
end

local function wait(holds, why)
  assert(vim.wait(WAIT_MS, holds, 5), why or "waited in vain; messages: " .. vim.inspect(messages))
end

local function equal(got, wanted)
  assert(vim.deep_equal(got, wanted), ("%s is not %s"):format(vim.inspect(got), vim.inspect(wanted)))
end

local function contains(text, part)
  assert(text:find(part, 1, true), ("%s does not contain %s"):format(vim.inspect(text), vim.inspect(part)))
end

--- Wait for a message that contains a text.
local function wait_for_message(part)
  wait(function()
    return table.concat(messages, "\n"):find(part, 1, true) ~= nil
  end)
end

local function buffer_text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end

--- Return the error and the value of a request.
local function request(method, path, more)
  local is_done, result = false, nil
  client.request(vim.tbl_extend("force", { method = method, path = path }, more or {}), function(...)
    is_done, result = true, { ... }
  end)
  wait(function()
    return is_done
  end)
  return result[1], result[2], result[3]
end

local cases = { live = {}, restart = {}, faults = {}, transcripts = {} }

--- Add a case; those of a kind run in this order.
local function case(kind, name, run)
  table.insert(cases[kind], { name = name, run = run })
end

case("live", "the selected lines are remembered with file, line and namespace", function()
  vim.cmd("edit " .. vim.fn.fnameescape(given.project))
  vim.cmd("3,4MnemoRemember")
  wait_for_message("remembered")
  contains(messages[1], "namespace boat")
end)

case("live", "the selected characters are remembered", function()
  vim.cmd("normal! 3G0wvf🚀\27")
  vim.cmd("'<,'>MnemoRemember")
  wait_for_message("remembered")
end)

case("live", "a text is remembered without evidence, and known the second time", function()
  vim.cmd("MnemoRemember The engine was serviced at 520 hours.")
  wait_for_message("remembered")
  vim.cmd("MnemoRemember the engine  was serviced at 520 hours.")
  wait_for_message("already known")
end)

case("live", "recall jumps to the line of a note", function()
  local window = vim.api.nvim_get_current_win()
  wait(function() -- the note is read in the background
    messages, picked = {}, {}
    vim.cmd("MnemoRecall when to prune the apple trees")
    wait(function()
      return #picked + #messages > 0
    end)
    return #picked > 0
  end)
  equal(vim.api.nvim_buf_get_name(0), given.garden)
  contains(vim.api.nvim_get_current_line(), "Prune the apple trees")
  contains(picked[1], "apple trees.md:8 · Garden › Trees")
  equal(vim.api.nvim_get_current_win(), window)
  vim.cmd('execute "normal! \\<C-o>"')
  equal(vim.api.nvim_buf_get_name(0), given.project)
end)

case("live", "recall shows another memory in a buffer of its own", function()
  vim.cmd("MnemoRecall engine serviced hours")
  wait(function()
    return vim.api.nvim_buf_get_name(0):find("^mnemo://") and buffer_text():find("520")
  end)
  contains(buffer_text(), "from:     cli, trust user, namespace boat")
  equal(vim.bo.modifiable, false)
end)

case("live", "recall! fills the quickfix list", function()
  vim.cmd("edit " .. vim.fn.fnameescape(given.project))
  vim.cmd("MnemoRecall! jib spinnaker")
  wait(function()
    return vim.bo.buftype == "quickfix"
  end)
  local items = vim.fn.getqflist()
  contains(items[1].text, "The jib is größer")
  contains(vim.fn.bufname(items[1].bufnr), "mnemo://")
  vim.cmd("cc 1")
  wait(function()
    return buffer_text():find("the spinnaker.", 1, true)
  end)
  contains(buffer_text(), "evidence: " .. given.project .. ":3")
  vim.cmd("cclose")
  vim.cmd("MnemoRecall! prune apple trees")
  wait(function()
    return vim.fn.getqflist({ title = true }).title:find("apple")
  end)
  local item = vim.fn.getqflist()[1]
  equal({ vim.api.nvim_buf_get_name(item.bufnr), item.lnum }, { given.garden, 8 })
  vim.cmd("cclose")
end)

case("live", "an answer names its sources, and Enter opens one", function()
  vim.cmd("edit " .. vim.fn.fnameescape(given.project))
  vim.cmd("MnemoAsk When should I prune the apple trees?")
  wait(function()
    return vim.bo.filetype == "mnemo" and buffer_text():find("late February", 1, true)
  end)
  contains(buffer_text(), "Prune the apple trees in late February. [1]")
  vim.fn.search("^\\[1\\]")
  vim.cmd('execute "normal \\<CR>"')
  equal(vim.api.nvim_buf_get_name(0), given.garden)
  contains(vim.api.nvim_get_current_line(), "Prune")
  vim.cmd("only")
end)

case("live", "the block of memories is inserted where the command was given, or yanked", function()
  vim.cmd("enew")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "Question:", "prune the apple trees" })
  vim.cmd("2MnemoContext")
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "A new first line" })
  wait_for_message("inserted")
  contains(buffer_text(), "A new first line\nQuestion:\nprune the apple trees\n<memory>\n[")
  vim.cmd("MnemoContext! prune the apple trees")
  wait_for_message("unnamed register")
  contains(vim.fn.getreg('"'), "late February.\n</memory>\n")
  vim.cmd("bwipe!")
end)

case("live", "nothing found is said", function()
  vim.cmd("MnemoRecall zyzzyva quokka")
  wait_for_message("in namespace")
  contains(messages[1], "nothing")
end)

case("live", "the namespace of a folder is that of the command line", function()
  for folder, wanted in pairs(given.namespaces) do
    local name, why = config.namespace(folder)
    equal(name, wanted ~= vim.NIL and wanted or nil)
    assert(name or why:find(folder:match("(.*)/src"), 1, true), why)
  end
  config.setup({ namespace = "fixed" })
  equal(config.namespace(given.home), "fixed")
end)

case("live", "the health report is good", function()
  vim.cmd("checkhealth mnemo")
  wait(function()
    return buffer_text():find("the daemon [%d.]+ answers")
  end)
  vim.cmd("bwipe!")
end)

case("restart", "a daemon that does not run is started", function()
  vim.fn.system({ "mnemo", "down" })
  local err, answer = request("POST", "/v1/recall", { body = { query = "engine serviced hours", namespace = "boat" } })
  equal(err, nil)
  contains(answer.memories[1].content, "520 hours")
  contains(messages[1], "starting it")
end)

case("restart", "a daemon that was restarted between two requests answers the second", function()
  local before = select(2, request("GET", "/v1/status"))
  vim.fn.system({ "mnemo", "down" })
  vim.fn.system({ "mnemo", "up" })
  local err, after = request("GET", "/v1/search?q=engine&namespace=boat")
  equal({ err, after.total }, { nil, 1 })
  assert(before.pid ~= select(2, request("GET", "/v1/status")).pid)
  equal(messages, {})
end)

case("faults", "a daemon that may not be started is reported with the command that starts it", function()
  config.setup({ socket = given.no_socket, autostart = false })
  local err = request("GET", "/v1/status")
  contains(err.message, "no daemon listens on " .. given.no_socket)
  contains(err.message, "start it with: mnemo up")
  config.setup({ socket = given.no_socket })
  vim.env.MNEMO_AUTOSTART = "off"
  contains(request("GET", "/v1/status").message, "start it with: mnemo up")
  vim.env.MNEMO_AUTOSTART = nil
end)

case("faults", "a program that is missing is reported", function()
  config.setup({ socket = given.no_socket, command = "no-such-program" })
  contains(request("GET", "/v1/status").message, "there is no program no-such-program")
end)

case("faults", "requests at the same time share one start, and its error", function()
  config.setup({ socket = given.no_socket, command = given.broken })
  local errors = {}
  for _ = 1, 3 do
    client.request({ method = "GET", path = "/v1/status" }, function(err)
      errors[#errors + 1] = err.message
    end)
  end
  wait(function()
    return #errors == 3
  end)
  for _, each in ipairs(errors) do
    contains(each, "it is broken")
  end
  equal(#vim.fn.readfile(given.starts), 1)
end)

case("faults", "a socket path that is too long is reported", function()
  config.setup({ socket = "/" .. ("x"):rep(200) })
  contains(request("GET", "/v1/status").message, "the system allows")
end)

case("faults", "an answer that does not come in time is an error, and blocks nothing", function()
  local is_done = false
  client.request({ method = "POST", path = "/v1/recall", body = { query = "held" }, timeout_ms = 50 }, function(err)
    is_done = err.code
  end)
  equal(is_done, false)
  wait(function()
    return is_done == "timeout"
  end)
end)

case("faults", "a request that a newer one replaces is dropped, and a late answer takes no keys", function()
  config.setup({ slow_ms = 20 })
  vim.cmd("MnemoRecall dropped")
  vim.cmd("MnemoRecall late")
  wait_for_message("still waiting")
  equal(picked, {})
  request("POST", "/v1/release", { body = {} })
  wait_for_message("in the quickfix list")
  contains(vim.fn.getqflist({ title = true }).title, "late")
  contains(vim.fn.getqflist()[1].text, "The *late* answer. It has two lines.")
  equal(picked, {})
  equal(#messages, #vim.tbl_filter(function(text)
    return text:find("still waiting") or text:find("quickfix")
  end, messages))
end)

case("faults", "an answer that comes at once opens the picker", function()
  vim.cmd("MnemoRecall at once")
  wait(function()
    return #picked == 1
  end)
  contains(picked[1], "0.82  c0ffee01 · 2025-12-01  The *late* answer. It has two lines.")
end)

case("faults", "an error of the daemon is shown with its message", function()
  vim.cmd("MnemoAsk anything")
  wait_for_message("mnemo: `question` must not be empty – größer")
  local err = request("POST", "/v1/ask", { body = { question = "" } })
  equal({ err.code, err.status, err.field }, { "bad_value", 400, "question" })
end)

case("faults", "a question is sent again if the connection ends, a new memory is not", function()
  vim.cmd("enew | MnemoContext anything")
  wait_for_message("inserted")
  contains(buffer_text(), "<memory>")
  vim.cmd("MnemoRemember anything")
  wait_for_message("may or may not have been carried out")
end)

case("faults", "large answers arrive whole, in chunks or not", function()
  for _, path in ipairs({ "/v1/big", "/v1/chunked" }) do
    local err, answer = request("GET", path)
    equal(err, nil)
    equal({ #answer.text, answer.text:sub(1, 13) }, { 13 * 100000, "Größe 🚀 " })
  end
  equal(request("GET", "/v1/cut").code, "interrupted")
end)

case("faults", "an answer with its length is read although the connection stays open", function()
  equal(request("GET", "/v1/kept"), nil)
end)

case("faults", "answers that are not as they should be are errors", function()
  equal(request("GET", "/v1/nothing").code, "status")
  equal(request("GET", "/v1/no-json").code, "malformed")
  equal(request("GET", "/v1/nowhere").code, "no_route")
end)

case("faults", "a fault of the store is shown", function()
  equal(request("GET", "/v1/degraded"), nil)
  contains(messages[1], "the disk is full")
end)

case("faults", "bytes that are no answer are distinguished from an answer that is not complete", function()
  local parse = require("mnemo.http").parse
  equal(parse("SSH-2.0-OpenSSH\r\n\r\n").code, "malformed")
  equal(parse("HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n").code, "malformed")
  equal(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").code, "malformed")
  equal(parse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").code, "interrupted")
  equal(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n").code, "interrupted")
  equal(parse("HTTP/1.1 200 OK\r\n").code, "interrupted")
  local chunks = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
  local _, answer = parse(chunks .. "2;x=y\r\nab\r\nA\r\n0123\r\n5678\r\n0\r\nTrailer: x\r\n\r\n")
  equal(answer.body, "ab0123\r\n5678")
end)

case("faults", "a setting that does not exist is refused", function()
  contains(select(2, pcall(config.setup, { colour = 1 })), "there is no setting colour; the settings are")
  contains(select(2, pcall(config.setup, { top_k = "5" })), "top_k must be a number")
end)

case("faults", "the socket is where the daemon listens", function()
  for _, name in ipairs({ "MNEMO_SOCKET", "MNEMO_DATA_DIR", "XDG_RUNTIME_DIR", "XDG_DATA_HOME" }) do
    vim.env[name] = nil
  end
  local data = vim.fn.has("mac") == 1 and "/Library/Application Support/mnemo" or "/.local/share/mnemo"
  equal(config.socket_path(), given.home .. data .. "/run/mnemo.sock")
  vim.env.XDG_RUNTIME_DIR = "/run/user/7"
  equal(config.socket_path(), "/run/user/7/mnemo/mnemo.sock")
  vim.env.MNEMO_DATA_DIR = "~/elsewhere"
  equal(config.socket_path(), given.home .. "/elsewhere/run/mnemo.sock")
  vim.env.MNEMO_SOCKET = "/run/m.sock"
  equal(config.socket_path(), "/run/m.sock")
end)

case("faults", "the help names every command and setting", function()
  local help = table.concat(vim.fn.readfile(root .. "/doc/mnemo.txt"), "\n")
  for name in pairs(vim.api.nvim_get_commands({})) do
    assert(not name:find("^Mnemo") or help:find("*:" .. name .. "*", 1, true), name)
  end
  for name in pairs(vim.tbl_extend("keep", { socket = 1, namespace = 1 }, config.options)) do
    contains(help, "*mnemo-" .. name .. "*")
  end
end)

local transcripts = vim.env.MNEMO_TRANSCRIPTS and table.concat(vim.fn.readfile(vim.env.MNEMO_TRANSCRIPTS), "\n")
for _, exchange in ipairs(transcripts and vim.json.decode(transcripts) or {}) do
  case("transcripts", exchange.name, function()
    local body = exchange.body ~= vim.NIL and exchange.body or nil
    local err, value, answer = request(exchange.method, exchange.path, { body = body, headers = exchange.headers })
    equal(answer.status, exchange.status)
    equal(answer.body, exchange.text)
    if exchange.status >= 400 then
      equal({ err.code, err.message }, { exchange.answer.error.code, exchange.answer.error.message })
    elseif exchange.answer ~= vim.NIL then
      equal(err, nil)
      equal(value, vim.json.decode(exchange.text, { luanil = { object = true, array = true } }))
    else
      equal(value, exchange.text)
    end
  end)
end

local failures = 0
for _, each in ipairs(cases[given.kind]) do
  messages, picked = {}, {}
  config.setup({ slow_ms = WAIT_MS }) -- on a busy machine no answer is late
  local holds, why = xpcall(each.run, debug.traceback)
  print((holds and "ok   " or "FAIL ") .. each.name .. (holds and "" or "\n" .. why) .. "\n")
  failures = failures + (holds and 0 or 1)
end
if #stray > 0 then
  print("FAIL globals: " .. table.concat(stray, ", ") .. "\n")
  failures = failures + 1
end
print(("%d cases, %d failures\n"):format(#cases[given.kind], failures))
vim.cmd(failures == 0 and "qall!" or "cquit 1")
