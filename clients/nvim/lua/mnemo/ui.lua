--- How answers are shown: the picker, the quickfix list, one memory, an answer with its sources.
local M = {}

local SHORT_ID_DIGITS = 8

--- Return a text on one line, without control characters.
function M.one_line(text)
  return vim.trim((text:gsub("[%s%c]+", " ")))
end

local function short_id(memory)
  return memory.id:gsub("-", ""):sub(-SHORT_ID_DIGITS)
end

local function line_of(memory)
  return memory.best and memory.best.line or memory.note.lines[1]
end

--- Return path:line of a passage of a note, and the end of the id of any other memory.
function M.place(memory)
  if not memory.note then
    return short_id(memory)
  end
  return M.one_line(vim.fn.fnamemodify(memory.note.path, ":~:.")) .. ":" .. line_of(memory)
end

--- Return the titles above a passage of a note, and the day of any memory that has one.
local function context_of(memory)
  local parts = {}
  if memory.note then
    local titles = vim.deepcopy(memory.note.headings)
    if titles[1] ~= memory.note.title then
      table.insert(titles, 1, memory.note.title)
    end
    parts[1] = M.one_line(table.concat(titles, " › "))
  end
  if not memory.note or memory.note.dated then
    parts[#parts + 1] = os.date("%Y-%m-%d", math.floor(memory.event_at / 1000))
  end
  return table.concat(parts, " · ")
end

local function excerpt(memory)
  return M.one_line(memory.best and memory.best.text or memory.content)
end

--- Return a memory as a line of the picker.
function M.format(memory)
  local was = memory.was and "(an older value) " or ""
  return ("%.2f  %s · %s  %s%s"):format(memory.score, M.place(memory), context_of(memory), was, excerpt(memory))
end

local function open_buffer(buffer, line)
  vim.cmd("normal! m'") -- CTRL-O leads back
  vim.bo[buffer].buflisted = true
  local is_open, failed = pcall(vim.cmd, "buffer " .. buffer)
  if not is_open then
    return require("mnemo.client").notify(failed, vim.log.levels.ERROR)
  end
  if line then
    vim.api.nvim_win_set_cursor(0, { math.max(1, math.min(line, vim.api.nvim_buf_line_count(0))), 0 })
    vim.cmd("normal! zv")
  end
end

--- Open a memory: the note at its line, and any other memory, or one whose note is gone, in a buffer of its own.
function M.open(memory)
  if memory.note and vim.fn.filereadable(memory.note.path) == 1 then
    open_buffer(vim.fn.bufadd(memory.note.path), line_of(memory))
  else
    open_buffer(vim.fn.bufadd("mnemo://" .. memory.id))
  end
end

--- Let the user choose one of the memories, and open it.
function M.pick(memories, title)
  local function line(memory)
    return vim.fn.strcharpart(M.format(memory), 0, math.max(40, vim.o.columns - 8))
  end
  vim.ui.select(memories, { prompt = title, kind = "mnemo", format_item = line }, function(memory)
    if memory then
      M.open(memory)
    end
  end)
end

--- Fill the quickfix list with the memories.
function M.fill_quickfix(memories, title)
  local items = vim.tbl_map(function(memory)
    local item = { text = ("%.2f  %s  %s"):format(memory.score, context_of(memory), excerpt(memory)) }
    if memory.note then
      item.filename, item.lnum = memory.note.path, line_of(memory)
    else
      item.filename, item.lnum = "mnemo://" .. memory.id, 1
    end
    return item
  end, memories)
  vim.fn.setqflist({}, " ", { title = title, items = items })
end

--- Make a buffer hold text that is no file and cannot be changed.
local function fill(buffer, lines)
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable, vim.bo[buffer].modified = false, false
end

local function make_scratch(buffer)
  vim.bo[buffer].buftype, vim.bo[buffer].swapfile, vim.bo[buffer].filetype = "nofile", false, "mnemo"
end

--- Return a memory in full, as lines.
function M.memory_lines(memory)
  local function listed(values)
    return values and #values > 0 and table.concat(values, ", ") or nil
  end
  local fields = {
    { "kind", memory.kind .. ", " .. memory.category .. ", " .. memory.layer },
    { "state", memory.state ~= "active" and memory.state or nil },
    { "date", os.date("%Y-%m-%d %H:%M", math.floor(memory.event_at / 1000)) },
    { "from", memory.source .. ", trust " .. memory.trust .. ", namespace " .. memory.namespace },
    { "tags", listed(memory.tags) },
    { "speaker", memory.speaker },
    { "note", memory.note and M.place(memory) or nil },
    { "evidence", listed(memory.evidence) },
    { "id", memory.id },
  }
  local lines = {}
  for _, field in ipairs(fields) do
    if field[2] then
      lines[#lines + 1] = ("%-9s %s"):format(field[1] .. ":", M.one_line(field[2]))
    end
  end
  lines[#lines + 1] = ""
  return vim.list_extend(lines, vim.split(memory.content, "\n", { plain = true }))
end

--- Show in a buffer `mnemo://ID` the memory of that id. `read(id, done)` requests it.
function M.load(buffer, read)
  local id = vim.api.nvim_buf_get_name(buffer):match("^mnemo://([%x-]+)$")
  make_scratch(buffer)
  if not id then
    return fill(buffer, { "The name of a memory's buffer is mnemo:// and the id of the memory." })
  end
  fill(buffer, { "…" })
  read(id, function(err, memory)
    if vim.api.nvim_buf_is_valid(buffer) then
      fill(buffer, err and vim.split("mnemo: " .. err.message, "\n", { plain = true }) or M.memory_lines(memory))
    end
  end)
end

--- Return the lines of an answer with its sources, and the memories by the number of the line that names them.
function M.answer_lines(question, answer)
  local numbers, cited, sentences = {}, {}, {}
  for _, sentence in ipairs(answer.sentences) do
    local marks = {}
    for _, id in ipairs(sentence.ids) do
      if not numbers[id] then
        cited[#cited + 1] = id
        numbers[id] = #cited
      end
      marks[#marks + 1] = "[" .. numbers[id] .. "]"
    end
    sentences[#sentences + 1] = M.one_line(sentence.text) .. " " .. table.concat(marks)
  end
  local lines = { "? " .. M.one_line(question), "" }
  vim.list_extend(lines, #sentences > 0 and sentences or vim.split(answer.answer, "\n", { plain = true }))
  local by_id, by_line = {}, {}
  for _, memory in ipairs(answer.memories) do
    by_id[memory.id] = memory
  end
  for number, id in ipairs(cited) do
    local memory = by_id[id]
    if memory then
      vim.list_extend(lines, { "", ("[%d] %s · %s"):format(number, M.place(memory), context_of(memory)) })
      by_line[#lines] = memory
      lines[#lines + 1] = "    " .. excerpt(memory)
      by_line[#lines] = memory
    end
  end
  return lines, by_line
end

--- Show an answer in a window below; Enter on a source opens it.
function M.show_answer(lines, by_line)
  local buffer = vim.api.nvim_create_buf(false, true)
  make_scratch(buffer)
  vim.bo[buffer].bufhidden = "wipe"
  fill(buffer, lines)
  vim.cmd("botright split")
  local window = vim.api.nvim_get_current_win()
  vim.api.nvim_win_set_buf(window, buffer)
  vim.api.nvim_win_set_height(window, math.min(#lines, math.floor(vim.o.lines / 2)))
  vim.wo[window].wrap, vim.wo[window].linebreak = true, true
  vim.keymap.set("n", "q", "<Cmd>close<CR>", { buffer = buffer, desc = "Close the answer" })
  vim.keymap.set("n", "<CR>", function()
    local memory = by_line[vim.api.nvim_win_get_cursor(0)[1]]
    if memory then
      vim.cmd("wincmd p")
      M.open(memory)
    end
  end, { buffer = buffer, desc = "Open the source" })
end

return M
