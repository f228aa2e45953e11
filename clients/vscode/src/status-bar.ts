/** The entry in the status bar: the number of memories, and if the daemon is ready. */

import * as vscode from "vscode";

import type { MnemoClient } from "./client";
import { errorText, statusSummary } from "./display";

const REFRESH_MS = 30_000;

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right);
  private readonly timer: NodeJS.Timeout;

  /** `client` returns the client to ask; it may throw MnemoError for settings that cannot be used. */
  constructor(private readonly client: () => MnemoClient) {
    this.item.command = "mnemod.status";
    this.item.name = "mnemod";
    this.item.show();
    this.timer = setInterval(() => void this.refresh(), REFRESH_MS);
  }

  /** Show the present state. The daemon is not started for it. */
  async refresh(): Promise<void> {
    let isWarning = true;
    try {
      const summary = statusSummary(await this.client().status({ mayStart: false }));
      this.item.text = summary.text;
      this.item.tooltip = summary.tooltip;
      isWarning = summary.isWarning;
    } catch (error) {
      this.item.text = "$(circle-slash) mnemod";
      this.item.tooltip = errorText(error);
    }
    this.item.backgroundColor = isWarning ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }

  dispose(): void {
    clearInterval(this.timer);
    this.item.dispose();
  }
}
