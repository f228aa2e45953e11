--- Settings of the plugin, the daemon's socket, and the namespace of a buffer.
local M = {}

local DEFAULTS = {
  command = "mnemo", -- the program that starts the daemon
  autostart = true, -- start the daemon if it does not run
  socket = nil, -- the daemon's socket; without it, where the daemon listens by default
  namespace = nil, -- the namespace of every request; without it, that of the buffer's folder
  top_k = 10, -- results of a recall
  timeout_ms = 30000, -- for an answer
  ask_timeout_ms = 60000, -- for an answer that a language model may write
  slow_ms = 2000, -- after which a message says that the answer takes long
}
local NAMESPACE_CHARS_MAX = 64
local YES = { ["1"] = true, ["true"] = true, yes = true, on = true }
local NO = { ["0"] = true, ["false"] = true, no = true, off = true, [""] = true }

M.options = vim.deepcopy(DEFAULTS)

--- Take the user's settings. Raise an error for one that does not exist or has the wrong type.
function M.setup(given)
  local types = { socket = "string", namespace = "string" }
  for name, value in pairs(given or {}) do
    local wanted = types[name] or type(DEFAULTS[name])
    if wanted == "nil" then
      local known = vim.tbl_extend("keep", { socket = "", namespace = "" }, DEFAULTS)
      local names = vim.tbl_keys(known)
      table.sort(names)
      error(("mnemo: there is no setting %s; the settings are %s"):format(name, table.concat(names, ", ")), 0)
    elseif type(value) ~= wanted then
      error(("mnemo: the setting %s must be a %s, not %s"):format(name, wanted, vim.inspect(value)), 0)
    end
  end
  M.options = vim.tbl_extend("force", vim.deepcopy(DEFAULTS), given or {})
end

--- Return the value of a variable; nil if it is empty, as for the command line.
local function variable(name)
  local value = vim.env[name]
  return value ~= "" and value or nil
end

local function absolute(path)
  return (vim.fn.fnamemodify(path, ":p"):gsub("(.)/$", "%1"))
end

--- Return the folder of mnemo in that of an XDG variable; macOS has one for data and settings, which comes first if it
--- is there.
local function own_folder(name, below_home)
  local home, value = vim.fn.expand("~") .. "/", variable(name)
  local is_chosen, library = value and value:sub(1, 1) == "/", home .. "Library/Application Support/mnemo"
  if vim.fn.has("mac") == 1 and (not is_chosen or vim.fn.isdirectory(library) == 1) then
    return library
  end
  return (is_chosen and value or home .. below_home) .. "/mnemo"
end

local function data_folder()
  local chosen = variable("MNEMO_DATA_DIR")
  return chosen and absolute(chosen) or own_folder("XDG_DATA_HOME", ".local/share")
end

local function config_file()
  local chosen = variable("MNEMO_CONFIG")
  return chosen and absolute(chosen) or own_folder("XDG_CONFIG_HOME", ".config") .. "/config.toml"
end

--- Return the path of the daemon's socket, by the rules of clients/docs/http.md.
function M.socket_path()
  local chosen = M.options.socket or variable("MNEMO_SOCKET")
  local runtime = variable("XDG_RUNTIME_DIR")
  if chosen then
    return absolute(chosen)
  elseif runtime and runtime:sub(1, 1) == "/" and not variable("MNEMO_DATA_DIR") then
    return runtime .. "/mnemo/mnemo.sock"
  end
  return data_folder() .. "/run/mnemo.sock"
end

--- Return true if a request may start the daemon.
function M.may_start()
  local switch = (vim.env.MNEMO_AUTOSTART or ""):lower()
  return M.options.autostart and not (switch ~= "" and NO[switch])
end

--- Return the value of a key, such as `client.name`, as it is written in a TOML file; nil if it has none. Only a key and
--- value on one line are read, with the section on a line above them.
local function toml_value(path, key)
  local prefix = ""
  for _, line in ipairs(vim.fn.readfile(path)) do
    local name = line:match("^%s*%[%s*([%w_.-]+)%s*%]")
    local assigned, value = line:match("^%s*([%w_.-]+)%s*=%s*(.-)%s*$")
    if name then
      prefix = name .. "."
    elseif assigned and prefix .. assigned == key then
      return value
    end
  end
end

--- Return the text of a TOML string without escapes, as it is written in a file; nil if it is not one.
local function toml_string(written)
  local text, rest = (written or ""):match('^"([^"\\]*)"(.*)$')
  if not text then
    text, rest = (written or ""):match("^'([^']*)'(.*)$")
  end
  return text and (rest:match("^%s*$") or rest:match("^%s*#")) and text or nil
end

local function checked(name, origin)
  local text = vim.trim(name)
  local length = vim.fn.strchars(text)
  if length < 1 or length > NAMESPACE_CHARS_MAX or text:find("%c") then
    local why = "%s cannot be a namespace (%s): it has 1 to %d printable characters on one line"
    return nil, why:format(vim.inspect(name), origin, NAMESPACE_CHARS_MAX)
  end
  return text
end

local function wants_project_namespaces()
  local name = "MNEMO_CLIENT_PROJECT_NAMESPACES"
  local value = vim.env[name]
  if value then
    if not (YES[value:lower()] or NO[value:lower()]) then
      return nil, ("%s is %s: set it to true or false"):format(name, vim.inspect(value))
    end
    return YES[value:lower()] or false
  end
  local path = config_file()
  local written = vim.fn.filereadable(path) == 1 and toml_value(path, "client.project_namespaces") or ""
  return written:match("^true%f[^%w]") ~= nil
end

--- Return the folder and every folder above it, the nearest first.
local function folders_above(folder)
  local found, parent = { folder }, vim.fn.fnamemodify(folder, ":h")
  while parent ~= found[#found] do
    found[#found + 1], parent = parent, vim.fn.fnamemodify(parent, ":h")
  end
  return found
end

--- Return the folder of a buffer's file; the working directory for a buffer without a file.
function M.folder(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == "" or vim.bo[buffer].buftype ~= "" or name:match("^%a[%w+.-]*://") then
    return vim.fn.getcwd()
  end
  return vim.fn.fnamemodify(name, ":p:h")
end

--- Return the namespace for requests from a folder, or nil and the reason. The rule is that of the command line: the
--- nearest .mnemo.toml, else the git work tree if `client.project_namespaces` is on, else `default`.
function M.namespace(folder)
  if M.options.namespace then
    return checked(M.options.namespace, "the setting namespace")
  end
  local folders = folders_above(folder)
  for _, place in ipairs(folders) do
    local file = place:gsub("/$", "") .. "/.mnemo.toml"
    if vim.fn.filereadable(file) == 1 then
      local name = toml_string(toml_value(file, "namespace"))
      if not name then
        return nil, file .. ' names no namespace; write this line in it: namespace = "NAME"'
      end
      return checked(name, file)
    end
  end
  local wanted, why = wants_project_namespaces()
  if wanted == nil then
    return nil, why
  end
  for _, place in ipairs(wanted and folders or {}) do
    local name = vim.fn.fnamemodify(place, ":t")
    if name ~= "" and (vim.uv or vim.loop).fs_stat(place .. "/.git") then
      return checked(vim.fn.strcharpart(name, 0, NAMESPACE_CHARS_MAX), place)
    end
  end
  return "default"
end

return M
