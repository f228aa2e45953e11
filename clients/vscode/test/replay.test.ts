/** The golden transcripts of clients/docs/http.md: tests/support/golden_transcripts.py describes the file and the server. */

import * as assert from "node:assert/strict";
import * as fs from "node:fs";
import { test } from "node:test";

import { MnemoClient } from "../src/client";
import { answerDocument, label, memoryDocument, outcomeText, place, statusDocument, statusSummary } from "../src/display";
import { RefusalError } from "../src/errors";
import type { AskAnswer, MemoryView, RecalledMemory, RememberAnswer, StatusAnswer } from "../src/protocol";
import { given } from "./setup";

interface Exchange {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: unknown;
  readonly status: number;
  readonly text: string;
  readonly answer: unknown;
}

const client = new MnemoClient({ environ: process.env });
const exchanges = JSON.parse(fs.readFileSync(given("MNEMO_TRANSCRIPTS"), "utf8")) as Exchange[];

function options(exchange: Exchange): { headers: Record<string, string>; body?: unknown } {
  return { headers: exchange.headers, ...(exchange.body === null ? {} : { body: exchange.body }) };
}

test("every documented request gets its documented answer", async () => {
  assert.ok(exchanges.length > 100);
  for (const exchange of exchanges) {
    const answer = await client.request(exchange.method, exchange.path, options(exchange));
    assert.deepEqual([answer.status, answer.text], [exchange.status, exchange.text], exchange.name);
  }
});

test("every documented error is raised with its code, field and message", async () => {
  const errors = exchanges.filter((exchange) => exchange.status >= 400);
  assert.ok(errors.length > 10);
  for (const exchange of errors) {
    const { error } = exchange.answer as { error: { code: string; field: string | null; message: string } };
    await assert.rejects(client.call(exchange.method, exchange.path, options(exchange)), (raised) => {
      assert.ok(raised instanceof RefusalError);
      assert.deepEqual([raised.status, raised.code, raised.field, raised.message],
        [exchange.status, error.code, error.field, error.message], exchange.name); // prettier-ignore
      return true;
    });
  }
});

test("every documented memory, answer and status can be shown", () => {
  const texts: string[] = [];
  for (const { method, path, status, answer } of exchanges.filter((exchange) => exchange.status < 300)) {
    const found = answer as { memories?: RecalledMemory[] } | null;
    if (Array.isArray(found?.memories) && typeof found.memories[0] === "object") {
      texts.push(...found.memories.flatMap((memory) => [label(memory), place(memory), memoryDocument(memory)]));
    }
    if (path === "/v1/ask") {
      texts.push(answerDocument("What?", answer as AskAnswer));
    } else if (path === "/v1/status") {
      texts.push(statusDocument(answer as StatusAnswer), statusSummary(answer as StatusAnswer).text);
    } else if (method === "POST" && path === "/v1/memories" && status < 300) {
      texts.push(outcomeText(answer as RememberAnswer), memoryDocument((answer as { memory: MemoryView }).memory));
    }
  }
  assert.ok(texts.length > 30);
  for (const text of texts) {
    assert.doesNotMatch(text, /undefined|NaN|\[object|^$/);
  }
});
