--- HTTP/1.1 on a Unix socket: one request on each connection. RFC 9112
local uv = vim.uv or vim.loop

local M = {}

-- sockaddr_un has 108 bytes on Linux and 104 on macOS, with a zero byte at the end. Older libuv cuts longer paths.
local SOCKET_PATH_BYTES_MAX = vim.fn.has("mac") == 1 and 103 or 107
local MALFORMED = { code = "malformed", message = "the process that listens on the socket is not a mnemo daemon" }
local INTERRUPTED = {
  code = "interrupted",
  message = "the connection ended before the daemon answered; the request may or may not have been carried out",
}

--- Return the bytes of a request. `body` is a string or nil.
function M.encode(method, target, headers, body)
  local lines = { method .. " " .. target .. " HTTP/1.1", "Host: localhost", "Connection: close" }
  for name, value in pairs(headers) do
    lines[#lines + 1] = name .. ": " .. value
  end
  if body then
    lines[#lines + 1] = "Content-Type: application/json"
    lines[#lines + 1] = "Content-Length: " .. #body
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end

--- Return the head of an answer with the offset of its body; nil if it is not complete, false if it is not HTTP.
local function parse_head(data, from)
  local stop, after = data:find("\r\n\r\n", from, true)
  if not stop then
    return nil
  end
  local status = data:sub(from, stop):match("^HTTP/1%.%d (%d%d%d)[ \r]")
  if not status then
    return false
  end
  local headers = {}
  for name, value in data:sub(from, stop + 1):gmatch("\n([^:\r\n]+):[ \t]*([^\r\n]*)") do
    headers[name:lower()] = value
  end
  if status:sub(1, 1) == "1" then
    return parse_head(data, after + 1) -- 100 Continue and the like come before the answer
  end
  return { status = tonumber(status), headers = headers, body_at = after + 1 }
end

--- Return the body of a chunked answer; nil if it is not complete, false if it is malformed.
local function join_chunks(data, at)
  local parts = {}
  while true do
    local stop, after = data:find("\r\n", at, true)
    if not stop then
      return nil
    end
    local size = tonumber(data:sub(at, stop - 1):match("^(%x+)") or "", 16)
    if not size then
      return false
    elseif size == 0 then
      local trailers_end = data:sub(after + 1, after + 2) == "\r\n" or data:find("\r\n\r\n", after, true)
      return trailers_end and table.concat(parts) or nil
    elseif #data < after + size + 2 then
      return nil
    elseif data:sub(after + size + 1, after + size + 2) ~= "\r\n" then
      return false
    end
    parts[#parts + 1] = data:sub(after + 1, after + size)
    at = after + size + 3
  end
end

--- Return the error or nil, and the answer: `status`, `headers` with names in lower case, `body`.
function M.parse(data)
  local head = parse_head(data, 1)
  if not head then
    return head == false and MALFORMED or INTERRUPTED
  end
  local written = head.headers["content-length"]
  local length, body = tonumber((written or ""):match("^%d+$")), nil
  if (head.headers["transfer-encoding"] or ""):lower() == "chunked" then
    body = join_chunks(data, head.body_at)
    if body == false then
      return MALFORMED
    end
  elseif written then
    if not length then
      return MALFORMED
    end
    body = #data >= head.body_at - 1 + length and data:sub(head.body_at, head.body_at - 1 + length) or nil
  else
    body = data:sub(head.body_at)
  end
  if not body then
    return INTERRUPTED
  end
  return nil, { status = head.status, headers = head.headers, body = body }
end

--- Return the number of bytes of an answer whose head has arrived: without a length, all until the connection ends, and
--- 0 if it is not HTTP.
local function bytes_needed(data)
  local head = parse_head(data, 1)
  if head == nil then
    return nil
  end
  local length = head and tonumber(head.headers["content-length"])
  return length and head.body_at - 1 + length or head and math.huge or 0
end

--- Send `bytes` and call `done(err, answer)` once, on the main loop. Return a function that drops the exchange: then
--- `done` is not called.
function M.exchange(path, bytes, timeout_ms, done)
  local pipe, timer, parts, size, needed = uv.new_pipe(false), uv.new_timer(), {}, 0, nil
  local is_over = false
  local function close()
    is_over = true
    timer:close()
    pipe:close()
  end
  local function finish(err, answer)
    if not is_over then
      close()
      vim.schedule(function()
        done(err, answer)
      end)
    end
  end
  if #path > SOCKET_PATH_BYTES_MAX then
    local why = "the socket path %s has %d bytes; the system allows %d: set MNEMO_SOCKET to a shorter path"
    finish({ code = "path", message = why:format(path, #path, SOCKET_PATH_BYTES_MAX) })
    return function() end
  end
  timer:start(timeout_ms, 0, function()
    local why = "the daemon did not answer within %g s; see what it does: mnemo status"
    finish({ code = "timeout", message = why:format(timeout_ms / 1000) })
  end)
  pipe:connect(path, function(failed)
    if is_over then
      return
    elseif failed then
      local code = (failed:find("ENOENT") or failed:find("ECONNREFUSED")) and "unreachable" or "connect"
      return finish({ code = code, message = "no daemon listens on " .. path .. " (" .. failed .. ")" })
    end
    -- An error of writing is no reason to stop: a daemon that refuses a body answers before it has read all of it.
    pipe:write(bytes, function() end)
    pipe:read_start(function(broken, piece)
      local is_ended = broken ~= nil or piece == nil
      parts[#parts + 1], size = piece, size + #(piece or "")
      needed = needed or bytes_needed(table.concat(parts))
      if is_ended or (needed and size >= needed) then
        finish(M.parse(table.concat(parts)))
      end
    end)
  end)
  return function()
    if not is_over then
      close()
    end
  end
end

return M
