/** The extension with a stand-in for VS Code (test/vscode.ts), against a live daemon. */

import * as assert from "node:assert/strict";
import * as fs from "node:fs";
import { after, before, beforeEach, test } from "node:test";

import type { ExtensionContext } from "vscode";

import { MnemoClient } from "../src/client";
import { activate } from "../src/extension";
import { given, newFolder, withNotes } from "./setup";
import { openEditor, registered, shown, Uri, user, window, workspace } from "./vscode";

const client = new MnemoClient({ environ: process.env });
const context = { subscriptions: [] as Array<{ dispose(): void }> };
let note = "";

before(async () => {
  note = await withNotes(client);
  activate(context as unknown as ExtensionContext);
});
after(() => context.subscriptions.forEach((each) => each.dispose()));
beforeEach(() => {
  window.activeTextEditor = undefined;
  Object.assign(shown, { errors: [], messages: [], warnings: [], picks: [], documents: [], clipboard: "" });
  Object.assign(user, { inputs: [], picked: 0, settings: { socketPath: given("MNEMO_SOCKET") }, cancels: false });
  registered.onConfiguration.forEach((listener) => listener({ affectsConfiguration: () => true }));
});

async function run(command: string, ...parameters: unknown[]): Promise<void> {
  const found = registered.commands.get(command);
  assert.ok(found, `${command} is not registered`);
  await found(...parameters);
}

test("every command, view and setting of package.json exists, and no other", () => {
  const manifest = JSON.parse(fs.readFileSync(given("MNEMO_MANIFEST"), "utf8"));
  const commands = manifest.contributes.commands.map((each: { command: string }) => each.command);
  assert.deepEqual([...registered.commands.keys()].sort(), commands.sort());
  assert.deepEqual([...registered.trees.keys()], manifest.contributes.views.mnemod.map((each: { id: string }) => each.id));
  const settings = Object.keys(manifest.contributes.configuration.properties);
  assert.deepEqual(settings.sort(), ["command", "namespace", "socketPath", "top"].map((name) => `mnemod.${name}`));
});

test("recall shows the results, and opens the note at its line", async () => {
  user.inputs = ["where is the router?"];
  await run("mnemod.recall");
  assert.match(shown.picks[0]?.items[0]?.label ?? "", /^The router is below the stairs\./);
  assert.match(shown.picks[0]?.items[0]?.description ?? "", /^\d\.\d\d · house\.md:9$/);
  assert.equal(shown.documents[0]?.document.uri.path, note);
  assert.deepEqual(shown.documents[0]?.selection?.start.line, 8);
});

test("the sidebar has the results and the recent memories, and opens one", async () => {
  user.inputs = ["apple trees"];
  await run("mnemod.recall");
  await run("mnemod.refresh");
  const tree = registered.trees.get("mnemod.memories");
  assert.ok(tree);
  const groups = tree.getChildren();
  assert.deepEqual(groups.map((group) => tree.getTreeItem(group).label), ["Results for “apple trees”", "Recent"]);
  const item = tree.getTreeItem(tree.getChildren(groups[0])[0]);
  assert.deepEqual([item.label, item.command?.command], ["Prune the apple trees in late February.", "mnemod.openMemory"]);
  await run(item.command!.command, ...item.command!.arguments);
  assert.deepEqual(shown.documents.at(-1)?.selection?.start.line, 4);
});

test("recall at the cursor takes the selection, the word, or the line", async () => {
  openEditor("Ask about the router\n  apple   pear  \n", 0, 10, 20);
  await run("mnemod.recallAtCursor");
  openEditor("Ask about the router\n  apple   pear  \n", 1, 4, 4);
  await run("mnemod.recallAtCursor");
  openEditor("Ask about the router\n  apple   pear  \n", 1, 15, 15);
  await run("mnemod.recallAtCursor");
  assert.deepEqual(shown.picks.map((pick) => pick.title), ["the router", "apple", "apple   pear"]);
});

test("the selection is remembered", async () => {
  openEditor("x The gate code is 4711. x", 0, 2, 24);
  await run("mnemod.remember");
  assert.deepEqual(shown.messages, ["mnemod: Remembered: The gate code is 4711."]);
  await run("mnemod.remember");
  assert.deepEqual(shown.messages[1], "mnemod: Known already: The gate code is 4711.");
});

test("the namespace is that of the setting, of the file's folder, or of the workspace", async () => {
  const project = newFolder();
  fs.writeFileSync(`${project}/.mnemo.toml`, 'namespace = "harbour"\n');
  const stored = async (content: string): Promise<string | undefined> => {
    openEditor(content, 0, 0, content.length, content.includes("file") ? `${project}/deep/a.md` : "/untitled");
    await run("mnemod.remember");
    const answer = await client.call<{ memories: Array<{ namespace: string }> }>("GET", "/v1/memories?namespace=*&limit=1");
    return answer.memories[0]?.namespace;
  };
  assert.equal(await stored("The pier of this file is closed."), "harbour");
  assert.equal(await stored("The pier outside is closed."), "default");
  window.activeTextEditor = undefined;
  workspace.workspaceFolders = [{ uri: Uri.file(project) }];
  user.inputs = ["The crane of the workspace is closed."];
  await run("mnemod.remember");
  assert.equal((await client.recall({ query: "crane of the workspace" })).memories.length, 0);
  workspace.workspaceFolders = [];
  user.settings["namespace"] = "set";
  assert.equal(await stored("The gate of this file is closed."), "set");
  await run("mnemod.status");
  assert.deepEqual(shown.errors, []);
});

test("a memory outside notes opens as a document of its own", async () => {
  await client.remember({ content: "The spare tyre is in the shed.", tags: ["car"] });
  user.inputs = ["spare tyre"];
  await run("mnemod.recall");
  const text = shown.documents[0]?.document.getText() ?? "";
  assert.equal(shown.documents[0]?.document.uri.scheme, "mnemod");
  assert.match(text, /^The spare tyre is in the shed\.\n[^]*- tags: car\n/);
});

test("a memory whose file is gone is shown with a warning", async () => {
  const [memory] = (await client.recall({ query: "router" })).memories;
  assert.ok(memory?.note);
  await run("mnemod.openMemory", { ...memory, note: { ...memory.note, path: `${newFolder()}/gone.md` } });
  assert.match(shown.warnings[0] ?? "", /gone\.md cannot be opened/);
  assert.match(shown.documents[0]?.document.getText() ?? "", /The router is below the stairs/);
});

test("a question is answered in a document that names the sources", async () => {
  user.inputs = ["Where is the router?"];
  await run("mnemod.ask");
  const text = shown.documents[0]?.document.getText() ?? "";
  assert.match(text, /^# Where is the router\?\n\nThe router is below the stairs\.\nIts password hangs on the fridge\. \[1\]\n\n1\. .*house\.md:\d+\)/);
});

test("the context of the selection is inserted below it, or copied", async () => {
  const document = openEditor("router stairs\n", 0, 0, 13);
  await run("mnemod.insertContext");
  assert.match(document.getText(), /^router stairs<memory>\n[^]*below the stairs[^]*<\/memory>/);
  await run("mnemod.copyContext");
  assert.match(shown.clipboard, /^<memory>\n/);
});

test("the status is shown as a document, and in the status bar", async () => {
  await run("mnemod.status");
  assert.match(shown.documents[0]?.document.getText() ?? "", /^# mnemod \d+\.\d+\.\d+: degraded\n[^]*- memories: \d+\n/);
  await run("mnemod.refresh");
  assert.match(String(registered.statusBarItems[0]?.["text"]), /^\$\(warning\) \d+$/);
});

test("an error is shown with its remedy, and the status bar shows that no daemon runs", async () => {
  user.settings = { socketPath: `${newFolder()}/none`, command: "no-such-mnemo" };
  registered.onConfiguration.forEach((listener) => listener({ affectsConfiguration: () => true }));
  user.inputs = ["anything"];
  await run("mnemod.recall");
  assert.match(shown.errors[0] ?? "", /^mnemod: no daemon runs, and there is no program no-such-mnemo.*\(install mnemod/);
  await run("mnemod.refresh");
  assert.equal(registered.statusBarItems[0]?.["text"], "$(circle-slash) mnemod");
});

test("a cancelled request shows nothing", async () => {
  user.cancels = true;
  user.inputs = ["What is slow?"];
  const { default: net } = await import("node:net");
  const server = net.createServer();
  const socketPath = `${newFolder()}/s`;
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  user.settings = { socketPath };
  registered.onConfiguration.forEach((listener) => listener({ affectsConfiguration: () => true }));
  await run("mnemod.ask");
  server.close();
  assert.deepEqual([shown.errors, shown.documents], [[], []]);
});
