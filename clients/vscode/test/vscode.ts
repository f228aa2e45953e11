/**
 * A small stand-in for the module `vscode`, which exists in the editor only: what the extension calls, recorded in
 * `shown` and answered from `user`. NODE_PATH makes `require("vscode")` find it.
 */

import * as fs from "node:fs/promises";

export const shown = {
  errors: [] as string[],
  messages: [] as string[],
  warnings: [] as string[],
  picks: [] as Array<{ title: string; items: ReadonlyArray<{ label: string; description: string }> }>,
  documents: [] as Array<{ document: TextDocument; selection: Range | undefined }>,
  clipboard: "",
};
/** What the user types, picks, and has set. */
export const user = {
  inputs: [] as Array<string | undefined>,
  picked: 0,
  settings: {} as Record<string, unknown>,
  cancels: false,
};
export const registered = {
  commands: new Map<string, (...parameters: unknown[]) => Promise<void>>(),
  providers: new Map<string, { provideTextDocumentContent(uri: Uri): string }>(),
  trees: new Map<string, { getChildren(node?: unknown): unknown[]; getTreeItem(node: unknown): TreeItem }>(),
  onConfiguration: [] as Array<(change: { affectsConfiguration(section: string): boolean }) => void>,
  statusBarItems: [] as Array<Record<string, unknown>>,
};

const nothing = { dispose: (): void => undefined };

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}

  get active(): Position {
    return this.end;
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly path: string,
  ) {}

  get fsPath(): string {
    return this.path;
  }

  static file(path: string): Uri {
    return new Uri("file", path);
  }

  static from(parts: { scheme: string; path: string }): Uri {
    return new Uri(parts.scheme, parts.path);
  }
}

export class TextDocument {
  constructor(
    readonly uri: Uri,
    private text: string,
  ) {}

  get lineCount(): number {
    return this.text.split("\n").length;
  }

  getText(range?: Range): string {
    if (range === undefined) {
      return this.text;
    }
    return this.text.slice(this.offset(range.start), this.offset(range.end));
  }

  lineAt(line: number): { text: string } {
    return { text: this.text.split("\n")[line] ?? "" };
  }

  getWordRangeAtPosition(position: Position): Range | undefined {
    for (const word of this.lineAt(position.line).text.matchAll(/\p{L}+/gu)) {
      const end = word.index + word[0].length;
      if (word.index <= position.character && position.character <= end) {
        return new Range(new Position(position.line, word.index), new Position(position.line, end));
      }
    }
    return undefined;
  }

  insert(position: Position, text: string): void {
    const offset = this.offset(position);
    this.text = this.text.slice(0, offset) + text + this.text.slice(offset);
  }

  private offset(position: Position): number {
    const before = this.text.split("\n").slice(0, position.line);
    return before.reduce((total, line) => total + line.length + 1, 0) + position.character;
  }
}

export class EventEmitter<T> {
  private readonly listeners: Array<(value: T) => void> = [];
  readonly event = (listener: (value: T) => void): typeof nothing => {
    this.listeners.push(listener);
    return nothing;
  };

  fire(value: T): void {
    this.listeners.forEach((listener) => listener(value));
  }
}

export class TreeItem {
  description: string | undefined;
  tooltip: string | undefined;
  command: { command: string; arguments: unknown[] } | undefined;

  constructor(
    readonly label: string,
    readonly collapsibleState: number,
  ) {}
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export const TreeItemCollapsibleState = { None: 0, Collapsed: 1, Expanded: 2 };
export const StatusBarAlignment = { Left: 1, Right: 2 };
export const ProgressLocation = { SourceControl: 1, Window: 10, Notification: 15 };

export const commands = {
  registerCommand: (name: string, run: (...parameters: unknown[]) => Promise<void>): typeof nothing => {
    registered.commands.set(name, run);
    return nothing;
  },
};

export const window = {
  activeTextEditor: undefined as unknown,
  createStatusBarItem: (): Record<string, unknown> => {
    const item = { show: () => undefined, dispose: () => undefined };
    registered.statusBarItems.push(item);
    return item;
  },
  registerTreeDataProvider: (view: string, tree: never): typeof nothing => {
    registered.trees.set(view, tree);
    return nothing;
  },
  showErrorMessage: async (text: string): Promise<void> => void shown.errors.push(text),
  showInformationMessage: async (text: string): Promise<void> => void shown.messages.push(text),
  showWarningMessage: async (text: string): Promise<void> => void shown.warnings.push(text),
  showInputBox: async (): Promise<string | undefined> => user.inputs.shift(),
  showQuickPick: async <T extends { label: string; description: string }>(
    items: readonly T[],
    options: { title: string },
  ): Promise<T | undefined> => {
    shown.picks.push({ title: options.title, items });
    return items[user.picked];
  },
  showTextDocument: async (document: TextDocument, options?: { selection?: Range }): Promise<void> => {
    shown.documents.push({ document, selection: options?.selection });
  },
  withProgress: async <T>(
    _options: unknown,
    run: (progress: unknown, token: { onCancellationRequested(then: () => void): typeof nothing }) => Promise<T>,
  ): Promise<T> => {
    const onCancellationRequested = (then: () => void): typeof nothing => {
      if (user.cancels) {
        setImmediate(then);
      }
      return nothing;
    };
    return run({}, { onCancellationRequested });
  },
};

export const workspace = {
  workspaceFolders: [] as Array<{ uri: Uri }>,
  getConfiguration: () => ({ get: (name: string): unknown => user.settings[name] }),
  onDidChangeConfiguration: (listener: (typeof registered.onConfiguration)[number]): typeof nothing => {
    registered.onConfiguration.push(listener);
    return nothing;
  },
  registerTextDocumentContentProvider: (scheme: string, provider: never): typeof nothing => {
    registered.providers.set(scheme, provider);
    return nothing;
  },
  openTextDocument: async (uri: Uri): Promise<TextDocument> => {
    const provider = registered.providers.get(uri.scheme);
    const text = provider === undefined ? await fs.readFile(uri.path, "utf8") : provider.provideTextDocumentContent(uri);
    return new TextDocument(uri, text);
  },
};

export const env = {
  clipboard: {
    writeText: async (text: string): Promise<void> => {
      shown.clipboard = text;
    },
  },
};

/** Show an editor with this text and selection (a line and two columns). */
export function openEditor(text: string, line: number, start: number, end: number, file = "/untitled"): TextDocument {
  const document = new TextDocument(Uri.file(file), text);
  window.activeTextEditor = {
    document,
    selection: new Range(new Position(line, start), new Position(line, end)),
    edit: async (change: (edit: TextDocument) => void): Promise<boolean> => {
      change(document);
      return true;
    },
  };
  return document;
}
