/** The tree in the sidebar: the results of the last recall, and the recent memories. */

import * as vscode from "vscode";

import { description, label } from "./display";
import type { RecalledMemory } from "./protocol";

/** A heading of the tree, with its memories. */
export interface MemoryGroup {
  readonly title: string;
  readonly memories: readonly RecalledMemory[];
  readonly hasScores: boolean;
}

type TreeNode = MemoryGroup | { readonly memory: RecalledMemory; readonly hasScore: boolean };

export class MemoryTree implements vscode.TreeDataProvider<TreeNode> {
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private results: MemoryGroup | undefined;
  private recent: MemoryGroup | undefined;

  showResults(query: string, memories: readonly RecalledMemory[]): void {
    this.results = { title: `Results for “${query}”`, memories, hasScores: true };
    this.changed.fire(undefined);
  }

  showRecent(memories: readonly RecalledMemory[]): void {
    this.recent = { title: "Recent", memories, hasScores: false };
    this.changed.fire(undefined);
  }

  getChildren(node?: TreeNode): TreeNode[] {
    if (node === undefined) {
      return [this.results, this.recent].filter((group) => group !== undefined);
    }
    return "memory" in node ? [] : node.memories.map((memory) => ({ memory, hasScore: node.hasScores }));
  }

  getTreeItem(node: TreeNode): vscode.TreeItem {
    if (!("memory" in node)) {
      const group = new vscode.TreeItem(node.title, vscode.TreeItemCollapsibleState.Expanded);
      group.description = node.memories.length === 0 ? "none" : String(node.memories.length);
      return group;
    }
    const item = new vscode.TreeItem(label(node.memory), vscode.TreeItemCollapsibleState.None);
    item.description = description(node.memory, node.hasScore);
    // As a text, not as Markdown: a memory may hold anything.
    item.tooltip = node.memory.content;
    item.command = { command: "mnemod.openMemory", title: "Open", arguments: [node.memory] };
    return item;
  }
}
