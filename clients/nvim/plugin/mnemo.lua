if vim.g.loaded_mnemo then
  return
end
vim.g.loaded_mnemo = true

local function command(name, action, options)
  vim.api.nvim_create_user_command(name, function(given)
    require("mnemo").run(action, given)
  end, vim.tbl_extend("force", { nargs = "*", range = true }, options))
end

command("MnemoRecall", "recall", { bang = true, desc = "Recall memories; with ! into the quickfix list" })
command("MnemoRemember", "remember", { desc = "Remember the selection, or a text" })
command("MnemoAsk", "ask", { desc = "Answer a question from the memories" })
command("MnemoContext", "context", { bang = true, desc = "Insert the memories for a prompt; with ! yank them" })

vim.api.nvim_create_autocmd("BufReadCmd", {
  group = vim.api.nvim_create_augroup("mnemo", {}),
  pattern = "mnemo://*",
  callback = function(event)
    require("mnemo").load(event.buf)
  end,
})
