/** The extension: commands, sidebar and status bar over the client. */

import * as path from "node:path";

import * as vscode from "vscode";

import { MnemoClient } from "./client";
import {
  answerDocument,
  description,
  errorText,
  jumpTarget,
  label,
  memoryDocument,
  outcomeText,
  statusDocument,
} from "./display";
import { DocumentStore, SCHEME } from "./documents";
import { CancelledError } from "./errors";
import { folderNamespace } from "./namespace";
import type { MemoryView, RecalledMemory } from "./protocol";
import { MemoryTree } from "./sidebar";
import { StatusBar } from "./status-bar";

const RECENT_SHOWN = 20;

export function activate(context: vscode.ExtensionContext): void {
  const extension = new Extension();
  const commands: Readonly<Record<string, (...parameters: never[]) => Promise<void>>> = {
    "mnemod.recall": () => extension.recall(),
    "mnemod.recallAtCursor": () => extension.recallAtCursor(),
    "mnemod.remember": () => extension.remember(),
    "mnemod.ask": () => extension.ask(),
    "mnemod.insertContext": () => extension.insertContext(),
    "mnemod.copyContext": () => extension.copyContext(),
    "mnemod.status": () => extension.showStatus(),
    "mnemod.refresh": () => extension.refresh(),
    "mnemod.openMemory": (memory: RecalledMemory) => extension.open(memory),
  };
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, (...parameters) => shown(run(...(parameters as never[])))));
  }
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, extension.documents),
    vscode.window.registerTreeDataProvider("mnemod.memories", extension.tree),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("mnemod")) {
        void extension.refresh(false).catch(() => undefined);
      }
    }),
    extension.statusBar,
  );
  // Nobody asked for anything yet: a daemon that does not run is not started, and no error is shown but in the bar.
  void extension.refresh(false).catch(() => undefined);
}

/** Show an error of the command as a message; a cancelled one is silent. */
async function shown(running: Promise<void>): Promise<void> {
  try {
    await running;
  } catch (error) {
    if (!(error instanceof CancelledError)) {
      await vscode.window.showErrorMessage(`mnemod: ${errorText(error)}`);
    }
  }
}

class Extension {
  readonly documents = new DocumentStore();
  readonly tree = new MemoryTree();
  readonly statusBar = new StatusBar(() => this.client());

  /** Return a client for the present settings and folder. Throws MnemoError. */
  private client(): MnemoClient {
    const settings = vscode.workspace.getConfiguration("mnemod");
    return new MnemoClient({
      socketPath: settings.get<string>("socketPath"),
      namespace: settings.get<string>("namespace") || presentNamespace(),
      command: settings.get<string>("command"),
    });
  }

  async recall(): Promise<void> {
    const query = await vscode.window.showInputBox({ title: "Recall", prompt: "A question, or words" });
    if (query?.trim()) {
      await this.recallText(query.trim());
    }
  }

  async recallAtCursor(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const query = editor === undefined ? "" : textAtCursor(editor);
    if (query) {
      await this.recallText(query);
    } else {
      await this.recall();
    }
  }

  private async recallText(query: string): Promise<void> {
    const answer = await waiting("Recalling …", (signal) =>
      this.client().recall({ query, top_k: this.top(), highlight: true }, { signal }),
    );
    this.tree.showResults(query, answer.memories);
    void this.statusBar.refresh();
    if (answer.memories.length === 0) {
      await vscode.window.showInformationMessage(`mnemod: nothing found in namespace ${answer.namespace}`);
      return;
    }
    const picked = await vscode.window.showQuickPick(
      answer.memories.map((memory) => ({ label: label(memory), description: description(memory, true), memory })),
      { title: [query, answer.time?.text].filter(Boolean).join(" · "), matchOnDescription: true },
    );
    if (picked !== undefined) {
      await this.open(picked.memory);
    }
  }

  async remember(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const selected = editor?.document.getText(editor.selection) ?? "";
    const content = selected.trim()
      ? selected
      : await vscode.window.showInputBox({ title: "Remember", prompt: "The text to remember" });
    if (!content?.trim()) {
      return;
    }
    const answer = await this.client().remember({ content });
    void this.refresh();
    void vscode.window.showInformationMessage(`mnemod: ${outcomeText(answer)}`);
  }

  async ask(): Promise<void> {
    const question = await vscode.window.showInputBox({ title: "Ask", prompt: "A question to your memories" });
    if (!question?.trim()) {
      return;
    }
    const answer = await waiting("Asking …", (signal) => this.client().ask({ question }, { signal }));
    await this.documents.show("answer.md", answerDocument(question, answer));
  }

  async insertContext(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined) {
      await vscode.window.showInformationMessage("mnemod: open a file to insert the context into, or copy it instead");
      return;
    }
    const block = await this.contextBlock();
    if (block) {
      // Below what was selected: it may be the question itself.
      await editor.edit((edit) => edit.insert(editor.selection.end, block));
    }
  }

  async copyContext(): Promise<void> {
    const block = await this.contextBlock();
    if (block) {
      await vscode.env.clipboard.writeText(block);
      void vscode.window.showInformationMessage("mnemod: the context is in the clipboard");
    }
  }

  /** Return the context block for the selection, or for words that are asked for; empty if there is none. */
  private async contextBlock(): Promise<string> {
    const editor = vscode.window.activeTextEditor;
    const selected = editor?.document.getText(editor.selection).trim() ?? "";
    const query = selected || (await vscode.window.showInputBox({ title: "Context", prompt: "The subject" }))?.trim();
    if (!query) {
      return "";
    }
    const answer = await waiting("Collecting …", (signal) =>
      this.client().context({ query, top_k: this.top() }, { signal }),
    );
    if (!answer.block) {
      void vscode.window.showInformationMessage("mnemod: nothing found for it");
    }
    return answer.block;
  }

  async showStatus(): Promise<void> {
    const status = await this.client().status();
    void this.statusBar.refresh();
    await this.documents.show("status.md", statusDocument(status));
  }

  /** Fetch the recent memories and the state again. */
  async refresh(mayStart = true): Promise<void> {
    try {
      this.tree.showRecent((await this.client().recent(RECENT_SHOWN, { mayStart })).memories);
    } finally {
      await this.statusBar.refresh();
    }
  }

  /** Open the note of a memory at its line, or the memory itself if it has none or the file cannot be opened. */
  async open(memory: MemoryView): Promise<void> {
    const target = jumpTarget(memory);
    if (target !== undefined) {
      const document = await opened(target.path);
      if (document !== undefined) {
        const line = Math.min(target.line, document.lineCount) - 1;
        const position = new vscode.Position(line, 0);
        await vscode.window.showTextDocument(document, { selection: new vscode.Range(position, position) });
        return;
      }
      void vscode.window.showWarningMessage(`mnemod: ${target.path} cannot be opened as a text; this is what is kept of it`);
    }
    const present = await this.client().memory(memory.id);
    await this.documents.show(`memory-${memory.id}.md`, memoryDocument(present));
  }

  private top(): number {
    return vscode.workspace.getConfiguration("mnemod").get<number>("top") ?? 10;
  }
}

/** Return the namespace of the folder of the current file, else of the workspace. Throws MnemoError. */
function presentNamespace(): string | undefined {
  const uri = vscode.window.activeTextEditor?.document.uri;
  const folder = uri?.scheme === "file" ? path.dirname(uri.fsPath) : vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return folder === undefined ? undefined : folderNamespace(folder, process.env);
}

/** Return the selection, else the word at the cursor, else its line. */
function textAtCursor(editor: vscode.TextEditor): string {
  const { document, selection } = editor;
  const selected = document.getText(selection).trim();
  if (selected) {
    return selected;
  }
  const word = document.getWordRangeAtPosition(selection.active);
  return (word === undefined ? document.lineAt(selection.active.line).text : document.getText(word)).trim();
}

/** Return the file as a document, undefined if it is gone or no text. */
async function opened(file: string): Promise<vscode.TextDocument | undefined> {
  try {
    return await vscode.workspace.openTextDocument(vscode.Uri.file(file));
  } catch {
    return undefined;
  }
}

/** Run the request with a notification that can cancel it. */
async function waiting<T>(title: string, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return vscode.window.withProgress(options, async (_progress, token) => {
    const abort = new AbortController();
    const listening = token.onCancellationRequested(() => abort.abort());
    try {
      return await run(abort.signal);
    } finally {
      listening.dispose();
    }
  });
}
