/** Texts for what the daemon answers: labels, places, documents. Pure functions, without the vscode API. */

import * as path from "node:path";

import { MnemoError } from "./errors";
import type { AskAnswer, MemoryView, RecalledMemory, RememberAnswer, StatusAnswer } from "./protocol";

const LABEL_CHARS_MAX = 100;
const OUTCOMES: Readonly<Record<string, string>> = {
  stored: "Remembered",
  repeats: "Remembered; it repeats what was known",
  duplicate: "Known already",
  updated: "Updated",
};

/** The place in a note from which a memory comes; `line` is counted from 1. */
export interface JumpTarget {
  readonly path: string;
  readonly line: number;
}

type AnyMemory = MemoryView & Partial<RecalledMemory>;

/** Return the file and line of a memory from a note: of its best sentence, else of its beginning. */
export function jumpTarget(memory: AnyMemory): JumpTarget | undefined {
  return memory.note === null
    ? undefined
    : { path: memory.note.path, line: memory.best?.line ?? memory.note.lines[0] };
}

/** Return the text on one line, cut after LABEL_CHARS_MAX characters. */
export function label(memory: AnyMemory): string {
  return shortened(memory.best?.text ?? memory.content);
}

export function shortened(text: string): string {
  const characters = [...text.replace(/\s+/gu, " ").trim()];
  return characters.length > LABEL_CHARS_MAX
    ? `${characters.slice(0, LABEL_CHARS_MAX - 1).join("").trimEnd()}…`
    : characters.join("");
}

/** Return `name:line` of a memory from a note, else the day on which it happened. */
export function place(memory: AnyMemory): string {
  const target = jumpTarget(memory);
  return target === undefined ? day(memory.event_at) : `${path.basename(target.path)}:${target.line}`;
}

/** Return the score and place of a result, and `was` for a value that a newer one replaced. */
export function description(memory: RecalledMemory, hasScore: boolean): string {
  return [hasScore ? memory.score.toFixed(2) : "", memory.was ? "was" : "", place(memory)].filter(Boolean).join(" · ");
}

/** Return the local day of a time as YYYY-MM-DD. */
export function day(time: number): string {
  const date = new Date(time);
  const parts = [date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0"));
  return [date.getFullYear(), ...parts].join("-");
}

/** Return the sentence about what became of a text that was to be remembered. */
export function outcomeText(answer: RememberAnswer): string {
  return `${OUTCOMES[answer.outcome] ?? answer.outcome}: ${shortened(answer.memory.content)}`;
}

/** Return a memory as a document: its text, then its fields. */
export function memoryDocument(memory: MemoryView): string {
  const target = jumpTarget(memory);
  const rows: ReadonlyArray<readonly [string, string]> = [
    ["id", memory.id],
    ["from", target === undefined ? memory.source : `${target.path}:${target.line}`],
    ["happened", memory.note !== null && !memory.note.dated ? "" : day(memory.event_at)],
    ["stored", day(memory.created_at)],
    ["by", memory.speaker ?? ""],
    ["tags", memory.tags.join(", ")],
    ["kind", `${memory.kind}, ${memory.category}`],
    ["layer", `${memory.layer}${memory.pinned ? ", pinned" : ""}`],
    ["state", memory.state],
    ["importance", memory.importance.toFixed(2)],
    ["trust", memory.trust],
    ["namespace", memory.namespace],
    ["version", String(memory.version)],
  ];
  return `${memory.content}\n\n---\n\n${listed(rows)}`;
}

/** Return an answer as a document: its sentences with the numbers of the memories that they rest on, then these. */
export function answerDocument(question: string, answer: AskAnswer): string {
  const numbers = new Map<string, number>();
  for (const id of answer.sentences.flatMap((sentence) => sentence.ids)) {
    numbers.set(id, numbers.get(id) ?? numbers.size + 1);
  }
  const sentences = answer.sentences.map(
    (sentence) => `${sentence.text}${sentence.ids.map((id) => ` [${numbers.get(id)}]`).join("")}`,
  );
  const memories = new Map(answer.memories.map((memory) => [memory.id, memory]));
  const sources = [...numbers].map(([id, number]) => {
    const memory = memories.get(id);
    const target = memory === undefined ? undefined : jumpTarget(memory);
    const where = target === undefined ? id : `${target.path}:${target.line}`;
    return `${number}. ${memory === undefined ? "" : `${shortened(memory.content)} `}(${where})`;
  });
  const method = answer.method === "llm" ? "Written by the language model." : "Quoted, without a language model.";
  const parts = [`# ${shortened(question)}`, sentences.join(" ") || answer.answer, sources.join("\n")];
  return `${[...parts, answer.abstained ? "" : method].filter(Boolean).join("\n\n")}\n`;
}

/** Return the state of the daemon as a document. */
export function statusDocument(status: StatusAnswer): string {
  const models = Object.entries(status.models).map(
    ([role, model]) => [role, [model.name ?? "none", model.state, model.reason].filter(Boolean).join(", ")] as const,
  );
  const namespaces = Object.entries(status.namespaces).map(([name, count]) => `${name} ${count}`);
  const reasons = status.reasons.map((reason) => `- ${reason}`).join("\n");
  return [
    `# mnemod ${status.version}: ${status.state}\n`,
    ...(reasons ? [`${reasons}\n`] : []),
    listed([
      ["memories", String(status.memories)],
      ["namespaces", namespaces.join(", ")],
      ...models,
      ["data", status.data_dir],
      ["socket", status.socket],
      ["running for", `${Math.round(status.uptime_seconds)} s`],
    ]),
  ].join("\n");
}

/** The text and the explanation of the entry in the status bar. */
export interface StatusSummary {
  readonly text: string;
  readonly tooltip: string;
  readonly isWarning: boolean;
}

export function statusSummary(status: StatusAnswer): StatusSummary {
  const icon = { ready: "$(database)", warming: "$(sync~spin)", degraded: "$(warning)" }[status.state] ?? "$(database)";
  return {
    text: `${icon} ${status.memories}`,
    tooltip: [`mnemod: ${status.memories} memories, ${status.state}`, ...status.reasons].join("\n"),
    isWarning: status.state === "degraded",
  };
}

/** Return an error as a sentence with what to do next. */
export function errorText(error: unknown): string {
  if (error instanceof MnemoError) {
    return error.hint ? `${error.message} (${error.hint})` : error.message;
  }
  return error instanceof Error ? error.message : String(error);
}

function listed(rows: ReadonlyArray<readonly [string, string]>): string {
  return rows
    .filter(([, value]) => value)
    .map(([name, value]) => `- ${name}: ${value}\n`)
    .join("");
}
