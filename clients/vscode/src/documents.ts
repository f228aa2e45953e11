/** Read-only documents of the scheme `mnemod`: memories, answers and the state of the daemon. */

import * as vscode from "vscode";

export const SCHEME = "mnemod";
/** Documents whose text is kept; VS Code asks again for one that is still open. */
const DOCUMENTS_MAX = 100;

export class DocumentStore implements vscode.TextDocumentContentProvider {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly texts = new Map<string, string>();

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.path) ?? "This text is no longer kept: open it again from the sidebar or by its command.\n";
  }

  /** Show the text as a document with this name; one with the same name gets the new text. */
  async show(name: string, text: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${name}` });
    this.texts.delete(uri.path);
    this.texts.set(uri.path, text);
    for (const oldest of [...this.texts.keys()].slice(0, -DOCUMENTS_MAX)) {
      this.texts.delete(oldest);
    }
    this.changed.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: true });
  }
}
