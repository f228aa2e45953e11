--- What the commands do: recall, remember, ask, context.
local client = require("mnemo.client")
local config = require("mnemo.config")
local ui = require("mnemo.ui")

local M = { setup = config.setup }

local OUTCOMES = {
  stored = "remembered",
  duplicate = "already known",
  repeats = "remembered, although already known in other words",
  merged = "merged into a known memory",
  updated = "updated",
}
local MISSING = { vectors = "by words only", notes = "notes are still being read", llm = "without the language model" }

local function report(err)
  client.notify(err.message, vim.log.levels.ERROR)
end

--- Call `run(text, namespace)` with the text, or with one that the user is asked for, unless it is empty.
local function with_text(text, prompt, run)
  local folder = config.folder(vim.api.nvim_get_current_buf())
  local function go(given)
    if not given or vim.trim(given) == "" then
      return
    end
    local namespace, why = config.namespace(folder)
    if namespace then
      run(given, namespace)
    else
      report({ message = why })
    end
  end
  if text and text ~= "" then
    go(text)
  else
    vim.ui.input({ prompt = prompt }, go)
  end
end

--- Return what was missing when an answer was made, in words; "" if nothing was.
local function missing(answer)
  local parts = vim.tbl_map(function(name)
    return MISSING[name] or "without " .. name
  end, answer.degraded or {})
  return #parts > 0 and " (" .. table.concat(parts, ", ") .. ")" or ""
end

--- Return the time that the question names, with the number of its memories; "" if it names none.
local function named_time(answer)
  return answer.time and answer.time.text ~= "" and " · " .. ui.one_line(answer.time.text) or ""
end

local function counted(memories)
  return #memories == 1 and "1 memory" or #memories .. " memories"
end

local function is_in_normal_mode()
  return vim.api.nvim_get_mode().mode == "n"
end

--- Find memories and let the user choose one; with `as_list` put them into the quickfix list.
function M.recall(query, as_list)
  with_text(query, "Recall: ", function(text, namespace)
    local began = vim.loop.now()
    local body = { query = text, namespace = namespace, top_k = config.options.top_k, cut = "gap", highlight = true }
    local spec = { method = "POST", path = "/v1/recall", body = body, slot = "recall", is_repeatable = true }
    client.request(spec, function(err, answer)
      if err then
        return report(err)
      elseif #answer.memories == 0 then
        local nothing = answer.abstained and "nothing in namespace %s is close enough to be an answer%s"
          or "nothing found in namespace %s%s"
        return client.notify(nothing:format(answer.namespace, missing(answer)))
      end
      local title = "mnemo: " .. ui.one_line(text) .. named_time(answer) .. missing(answer)
      -- A picker that opens while the user types somewhere else would take the keys.
      local is_late = vim.loop.now() - began > config.options.slow_ms or not is_in_normal_mode()
      if not as_list and not is_late then
        return ui.pick(answer.memories, title)
      end
      ui.fill_quickfix(answer.memories, title)
      if is_late then
        client.notify(counted(answer.memories) .. " in the quickfix list: :copen")
      else
        vim.cmd("botright copen")
      end
    end)
  end)
end

--- Remember a text. `evidence` is where it stands, as path:line, or nil.
function M.remember(text, evidence)
  with_text(text, "Remember: ", function(content, namespace)
    local body = { content = content, namespace = namespace, evidence = evidence and { evidence } or nil }
    client.request({ method = "POST", path = "/v1/memories", body = body }, function(err, answer)
      if err then
        return report(err)
      end
      local memory = answer.memory
      local parts = { OUTCOMES[answer.outcome] or answer.outcome, ui.place(memory), "namespace " .. memory.namespace }
      for _, tag in ipairs(memory.tags) do
        if tag == "sensitive" then
          parts[#parts + 1] = "looks like a secret: tagged sensitive"
        end
      end
      client.notify(table.concat(parts, " · "))
    end)
  end)
end

--- Answer a question from the memories, in a window with the sources.
function M.ask(question)
  with_text(question, "Ask: ", function(text, namespace)
    local spec = { method = "POST", path = "/v1/ask", body = { question = text, namespace = namespace }, slot = "ask" }
    spec.timeout_ms, spec.is_repeatable = config.options.ask_timeout_ms, true
    client.request(spec, function(err, answer)
      if err then
        return report(err)
      elseif answer.abstained then
        return client.notify(("the memories of namespace %s do not hold the answer%s"):format(answer.namespace, missing(answer)))
      end
      local lines, by_line = ui.answer_lines(text .. missing(answer), answer)
      local window = vim.api.nvim_get_current_win()
      ui.show_answer(lines, by_line)
      if not is_in_normal_mode() then
        vim.api.nvim_set_current_win(window)
      end
    end)
  end)
end

--- Insert the block of memories for a query below the cursor, or the line `row` (counted from 1); with `as_yank` put it
--- into the unnamed register.
function M.context(query, as_yank, row)
  local buffer, space = vim.api.nvim_get_current_buf(), vim.api.nvim_create_namespace("mnemo")
  row = row or vim.api.nvim_win_get_cursor(0)[1]
  with_text(query, "Context for: ", function(text, namespace)
    -- The mark follows the line while the user goes on editing.
    local mark = vim.api.nvim_buf_set_extmark(buffer, space, row - 1, 0, {})
    local spec = { method = "POST", path = "/v1/context", body = { query = text, namespace = namespace }, slot = "context" }
    spec.is_repeatable = true
    client.request(spec, function(err, answer)
      if err then
        return report(err)
      elseif answer.block == "" then
        return client.notify(("nothing found in namespace %s%s"):format(answer.namespace, missing(answer)))
      end
      local lines = vim.split(answer.block, "\n", { plain = true })
      local is_there = vim.api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].modifiable
      local place = is_there and vim.api.nvim_buf_get_extmark_by_id(buffer, space, mark, {}) or {}
      if as_yank or not place[1] then
        vim.fn.setreg('"', lines, "l")
        client.notify(("%s in the unnamed register%s"):format(counted(answer.memories), missing(answer)))
      else
        vim.api.nvim_buf_set_lines(buffer, place[1] + 1, place[1] + 1, false, lines)
        vim.api.nvim_buf_del_extmark(buffer, space, mark)
        client.notify(("%s inserted%s"):format(counted(answer.memories), missing(answer)))
      end
    end)
  end)
end

--- Read the memory of a buffer `mnemo://ID`.
function M.load(buffer)
  ui.load(buffer, function(id, done)
    client.request({ method = "GET", path = "/v1/memories/" .. id, is_repeatable = true }, done)
  end)
end

--- Return the selected text of the current buffer, and its first line: the whole lines of the range of a command, or the
--- characters that were selected if the range is that of the last characterwise selection.
local function selection(first, last)
  local from, to = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  local lines = vim.api.nvim_buf_get_lines(0, first - 1, last, false)
  if vim.fn.visualmode() == "v" and from[2] == first and to[2] == last then
    local stop = math.min(to[3], #lines[#lines])
    if vim.o.selection == "exclusive" and to[3] <= #lines[#lines] then
      stop = stop - 1
    elseif stop > 0 then
      stop = stop + vim.str_utf_end(lines[#lines], stop)
    end
    lines[#lines] = lines[#lines]:sub(1, stop)
    lines[1] = lines[1]:sub(from[3])
  end
  return table.concat(lines, "\n"), first
end

--- Run a command of plugin/mnemo.lua. `given` is what nvim_create_user_command passes to a command.
function M.run(name, given)
  local text, line = given.args, nil
  if given.range > 0 and text == "" then
    text, line = selection(given.line1, given.line2)
  end
  if name ~= "remember" then
    return M[name](ui.one_line(text), given.bang, given.line2)
  end
  local path = vim.api.nvim_buf_get_name(0)
  local is_file = line and path ~= "" and vim.bo.buftype == ""
  M.remember(text, is_file and vim.fn.fnamemodify(path, ":p") .. ":" .. line or nil)
end

return M
