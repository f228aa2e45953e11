/** What the tests share: the places that pytest names in the environment, servers that misbehave, notes. */

import * as fs from "node:fs";
import * as http from "node:http";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";

import { MnemoClient } from "../src/client";

/** Return the value of a variable that pytest sets. */
export function given(name: string): string {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: tests/integration/test_vscode_client.py runs this file`);
  }
  return value;
}

/** Return a new folder with a short path, which is removed when the process ends. */
export function newFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "v"));
  process.once("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Return a client of a server that the handler answers, and a record of its requests. It never starts a daemon. */
export async function clientOf(
  handler: http.RequestListener,
  options: ConstructorParameters<typeof MnemoClient>[0] = {},
): Promise<{ client: MnemoClient; requests: string[] }> {
  const requests: string[] = [];
  const server = http.createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    handler(request, response);
  });
  return { client: await listening(server, options), requests };
}

/** Return a client of a server that sends these bytes to whoever connects, then closes the connection. */
export async function clientOfBytes(bytes: string): Promise<MnemoClient> {
  return listening(
    net.createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.end(bytes));
    }),
    {},
  );
}

async function listening(
  server: net.Server,
  options: ConstructorParameters<typeof MnemoClient>[0],
): Promise<MnemoClient> {
  const socketPath = path.join(newFolder(), "s");
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  server.unref();
  return new MnemoClient({ ...options, environ: { MNEMO_AUTOSTART: "off" }, socketPath });
}

/** Write a folder of notes, have the daemon read it, and return the path of its file. */
export async function withNotes(client: MnemoClient): Promise<string> {
  const folder = fs.realpathSync(newFolder());
  const file = path.join(folder, "house.md");
  const garden = ["## Garden", "", "Prune the apple trees in late February.", ""];
  const wifi = ["## Wifi", "", "The router is below the stairs.", "Its password hangs on the fridge.", ""];
  fs.writeFileSync(file, ["# House", "", ...garden, ...wifi].join("\n"));
  await client.call("POST", "/v1/notes/roots", { body: { path: folder } });
  await client.call("POST", "/v1/notes/rescan");
  return file;
}
