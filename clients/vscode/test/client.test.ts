/** The client against a live daemon, and against servers that misbehave. */

import * as assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { BODY_BYTES_MAX, MnemoClient } from "../src/client";
import { jumpTarget } from "../src/display";
import {
  CancelledError,
  InterruptedAnswerError,
  InvalidAnswerError,
  MnemoError,
  RefusalError,
  SlowAnswerError,
  SocketPathError,
  StartError,
  UnreachableError,
} from "../src/errors";
import { clientOf, clientOfBytes, given, newFolder, withNotes } from "./setup";

const client = new MnemoClient({ environ: { MNEMO_SOCKET: given("MNEMO_SOCKET"), MNEMO_AUTOSTART: "off" } });

test("what was remembered is recalled, whatever script it is in", async () => {
  for (const content of ["The spare key is with Ines.", "Der Schlüssel liegt unter der Türmatte.", "备用钥匙在邻居家 🔑"]) {
    const answer = await client.remember({ content, tags: ["haus"] });
    assert.deepEqual([answer.outcome, answer.memory.content, answer.memory.source], ["stored", content, "cli"]);
  }
  const [found] = (await client.recall({ query: "schlüssel türmatte", highlight: true })).memories;
  assert.equal(found?.content, "Der Schlüssel liegt unter der Türmatte.");
  assert.deepEqual(found?.best?.marks[0], [4, 13]);
  assert.deepEqual((await client.recall({ query: "备用钥匙" })).memories[0]?.content, "备用钥匙在邻居家 🔑");
});

test("a text that is known already is not stored twice", async () => {
  const first = await client.remember({ content: "The bins go out on Tuesday." });
  const second = await client.remember({ content: "The bins go out on Tuesday." });
  assert.deepEqual([second.outcome, second.memory.id], ["duplicate", first.memory.id]);
});

test("a memory from a note leads to its file and line", async () => {
  const reader = new MnemoClient({ environ: process.env, namespace: "notes" });
  const file = await withNotes(reader);
  const [found] = (await reader.recall({ query: "where is the router?", highlight: true })).memories;
  assert.ok(found);
  assert.deepEqual(jumpTarget(found), { path: file, line: 9 });
  const [second] = (await reader.recall({ query: "password on the fridge", highlight: true })).memories;
  assert.deepEqual(second && jumpTarget(second), { path: file, line: 10 });
});

test("a question is answered with the memories that say it", async () => {
  await client.remember({ content: "The engine was serviced at 520 hours." });
  const answer = await client.ask({ question: "At how many hours was the engine serviced?" });
  assert.equal(answer.answer, "The engine was serviced at 520 hours.");
  assert.deepEqual(answer.sentences[0]?.ids, [answer.memories[0]?.id]);
});

test("context is a block for a prompt", async () => {
  await client.remember({ content: "The ferry to Aland leaves at 07:45." });
  const answer = await client.context({ query: "ferry to Aland" });
  assert.match(answer.block, /^<memory>\n[^]*The ferry to Aland leaves at 07:45\.\n<\/memory>/);
});

test("recent memories, one memory and the status are read", async () => {
  const { memory } = await client.remember({ content: "The attic light needs a new bulb." });
  assert.equal((await client.recent(1)).memories.length, 1);
  assert.equal((await client.memory(memory.id)).content, memory.content);
  const status = await client.status();
  assert.equal(status.socket, given("MNEMO_SOCKET"));
  assert.ok(status.memories > 0);
});

test("a namespace of any script is used by every request", async () => {
  const harbour = new MnemoClient({ environ: process.env, namespace: "häfen 港" });
  const { memory } = await harbour.remember({ content: "The crane is out of order." });
  assert.equal(memory.namespace, "häfen 港");
  assert.equal((await harbour.recall({ query: "crane" })).memories[0]?.id, memory.id);
  assert.equal((await client.recall({ query: "crane out of order" })).memories.length, 0);
  assert.throws(() => new MnemoClient({ namespace: "a\nb" }), MnemoError);
});

test("an error of the daemon has its code, field and message", async () => {
  await assert.rejects(client.recall({ query: "key", top_k: 101 }), (error) => {
    assert.ok(error instanceof RefusalError);
    assert.deepEqual([error.status, error.code, error.field], [400, "bad_value", "top_k"]);
    assert.match(error.message, /whole number from 1 to 100, not 101/);
    return true;
  });
  await assert.rejects(client.memory("00000000"), (error) => error instanceof RefusalError && error.status === 404);
  await assert.rejects(client.memory("../status"), (error) => error instanceof RefusalError);
});

test("a request that is larger than the daemon takes is refused before it is sent", async () => {
  await assert.rejects(client.remember({ content: "x".repeat(BODY_BYTES_MAX) }), /the daemon takes 1048576/);
  await assert.rejects(client.remember({ content: "x".repeat(BODY_BYTES_MAX - 100) }), RefusalError);
});

test("an answer that takes too long is given up", async () => {
  const { client: slow, requests } = await clientOf(() => undefined, { timeoutMs: 50 });
  await assert.rejects(slow.recall({ query: "x" }), SlowAnswerError);
  const { client: stuck } = await clientOf((_, response) => void response.write('{"memories": ['), { timeoutMs: 50 });
  await assert.rejects(stuck.status(), SlowAnswerError);
  assert.deepEqual(requests, ["POST /v1/recall"]);
});

test("a request can be cancelled", async () => {
  const abort = new AbortController();
  const { client: slow } = await clientOf(() => abort.abort());
  await assert.rejects(slow.recall({ query: "x" }, { signal: abort.signal }), CancelledError);
});

test("a read is repeated once if the connection ends, and a write is not", async () => {
  let isFirst = true;
  const { client: restarted, requests } = await clientOf((request, response) => {
    if (isFirst) {
      request.socket.destroy();
    } else {
      response.end('{"memories": []}');
    }
    isFirst = false;
  });
  assert.deepEqual((await restarted.recall({ query: "x" })).memories, []);
  const { client: gone, requests: sent } = await clientOf((request) => void request.socket.destroy());
  await assert.rejects(gone.remember({ content: "x" }), InterruptedAnswerError);
  await assert.rejects(gone.status(), InterruptedAnswerError);
  assert.deepEqual(requests, ["POST /v1/recall", "POST /v1/recall"]);
  assert.deepEqual(sent, ["POST /v1/memories", "GET /v1/status", "GET /v1/status"]);
});

test("an answer that ends too early is not taken for a whole one", async () => {
  const cut = await clientOfBytes('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"memories": []}');
  await assert.rejects(cut.recall({ query: "x" }), InterruptedAnswerError);
});

test("what is no answer of a daemon is reported", async () => {
  await assert.rejects((await clientOfBytes("SSH-2.0-OpenSSH\r\n\r\n")).status(), InvalidAnswerError);
  const { client: page } = await clientOf((_, response) => void response.end("<html>"));
  await assert.rejects(page.status(), InvalidAnswerError);
});

test("an error of another shape is an error all the same", async () => {
  const { client: odd } = await clientOf((_, response) => {
    response.writeHead(503, { "Retry-After": "7" }).end("[]");
  });
  await assert.rejects(odd.status(), (error) => {
    assert.ok(error instanceof RefusalError);
    assert.deepEqual([error.message, error.hint], ["the daemon answered 503", "try again in 7 s"]);
    return true;
  });
});

test("without a daemon the error says how to start it", async () => {
  const folder = newFolder();
  const down = (environ: Record<string, string>, command = "mnemo"): MnemoClient =>
    new MnemoClient({ environ: { MNEMO_DATA_DIR: folder, ...environ }, command });
  await assert.rejects(down({}).status({ mayStart: false }), UnreachableError);
  await assert.rejects(down({ MNEMO_AUTOSTART: "off" }).status(), (error) => {
    return error instanceof UnreachableError && error.hint.includes("MNEMO_AUTOSTART is off");
  });
  await assert.rejects(down({}, "no-such-mnemo").status(), (error) => {
    return error instanceof StartError && error.message.includes("no program no-such-mnemo");
  });
  const broken = path.join(folder, "broken");
  fs.writeFileSync(broken, "#!/bin/sh\necho 'the disk is full' >&2\nexit 1\n", { mode: 0o755 });
  await assert.rejects(down({}, broken).status(), /the daemon could not be started: the disk is full/);
});

test("a path that is too long for a socket is refused", () => {
  assert.throws(() => new MnemoClient({ socketPath: `/${"x".repeat(120)}` }), SocketPathError);
});

test("a daemon that does not run is started, once for all who wait, and again after it was stopped", async (context) => {
  const folder = newFolder();
  const counter = path.join(folder, "starts");
  const command = path.join(folder, "mnemo");
  fs.writeFileSync(command, `#!/bin/sh\necho start >>'${counter}'\nexec '${given("MNEMO_COMMAND")}' "$@"\n`, {
    mode: 0o755,
  });
  const data = path.join(folder, "data");
  const environ = { ...process.env, MNEMO_DATA_DIR: data, MNEMO_SOCKET: "" };
  const own = new MnemoClient({ environ, command });
  const starts = (): number => fs.readFileSync(counter, "utf8").split("\n").length - 1;
  const stop = async (): Promise<number> => {
    const { pid } = await own.call<{ pid: number }>("POST", "/v1/shutdown", { mayStart: false });
    while (isRunning(pid)) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return pid;
  };
  context.after(() => stop().catch(() => 0));
  const [stored] = await Promise.all([own.remember({ content: "The tent is in the loft." }), own.status()]);
  assert.deepEqual([stored.outcome, starts()], ["stored", 1]);
  const first = await stop();
  assert.equal((await own.recall({ query: "tent" })).memories[0]?.id, stored.memory.id);
  assert.equal(starts(), 2);
  assert.notEqual(await stop(), first);
});

/** Return true while the process runs; a dead one that its parent has not noticed counts as ended. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const state = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(")").at(-1)?.trim()[0];
    return state !== "Z";
  } catch {
    return false;
  }
}
