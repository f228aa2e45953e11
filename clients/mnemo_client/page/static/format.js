// Numbers, times and places in words.

const DAY_MS = 86_400_000;
const NUMBER = new Intl.NumberFormat("en-GB");
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const DAY_OF_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric" });

/** @param {number} value */
export const count = (value) => NUMBER.format(value).replace("-", "−");

/**
 * Return a number with its noun: "1 memory", "2,014 memories".
 * @param {number} value
 * @param {string} noun
 * @param {string} [plural]
 */
export const counted = (value, noun, plural = `${noun}s`) => `${count(value)} ${value === 1 ? noun : plural}`;

/** @param {(string | null | undefined)[]} parts of a line, of which those that say nothing are left out */
export const dotted = (...parts) => parts.filter(Boolean).join(" · ");

/** @param {number} value */
export const memories = (value) => counted(value, "memory", "memories");

/**
 * Return a number with a sign and one decimal.
 * @param {number} value
 */
export function signed(value) {
  const rounded = value.toFixed(1);
  return Number(rounded) === 0 ? "0.0" : value > 0 ? `+${rounded}` : rounded.replace("-", "−");
}

/** @param {number} value in bytes */
export function bytes(value) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ])) {
    if (value >= size) return `${(value / size).toFixed(value >= size * 10 ? 0 : 1)} ${unit}`;
  }
  return `${value} bytes`;
}

/** @param {number} ms */
export const day = (ms) => DAY.format(ms);

/** @param {number} ms */
export const weekday = (ms) => WEEKDAY.format(ms);

/** @param {number} ms */
export const month = (ms) => MONTH.format(ms);

/** @param {number} ms */
export const clock = (ms) => CLOCK.format(ms);

/**
 * Return a time as it is said now: "today 14:07", "yesterday 9:10", "18 Nov, 09:12", "12 Mar 2025".
 * @param {number} ms
 * @param {number} [now]
 */
export function moment(ms, now = Date.now()) {
  const days = Math.round((startOfDay(now) - startOfDay(ms)) / DAY_MS);
  if (days === 0) return `today ${clock(ms)}`;
  if (days === 1) return `yesterday ${clock(ms)}`;
  return new Date(ms).getFullYear() === new Date(now).getFullYear()
    ? `${DAY_OF_YEAR.format(ms)}, ${clock(ms)}`
    : day(ms);
}

/** @param {number} ms */
export function startOfDay(ms) {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/**
 * Return the local day as an address and the daemon write it: 2026-11-29.
 * @param {number} ms
 */
export function isoDay(ms) {
  const date = new Date(ms);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/**
 * Return how long something takes or is ago: "40 s", "12 min", "3 h", "5 days".
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return counted(Math.round(seconds / 86_400), "day");
}

/** @typedef {Pick<import("../api_types").MemoryView, "note" | "source" | "session_id" | "agent_id" | "speaker" | "author">} Sourced */

/**
 * Return where a memory comes from: `notes/runbook.md:42 › Ports › TLS`, or by which program and session.
 * @param {Sourced} memory
 */
export function origin(memory) {
  if (memory.note) {
    const { path, lines, headings } = memory.note;
    return [`${shortPath(path)}:${lines[0]}`, ...headings].join(" › ");
  }
  const program = memory.agent_id || { cli: "mnemo add", page: "this page" }[memory.source] || memory.source;
  return [program, memory.session_id].filter(Boolean).join(" › ");
}

/**
 * Return a path with its last parts whole: "work/…/runbook.md".
 * @param {string} path
 */
export function shortPath(path) {
  const parts = path.split("/").filter(Boolean);
  return parts.length <= 3 ? parts.join("/") : `${parts.at(-3)}/${parts.at(-2)}/${parts.at(-1)}`;
}

/**
 * Return a text of at most so many characters, which ends with … where it goes on.
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const all = Array.from(text);
  return all.length > most ? `${all.slice(0, most - 1).join("")}…` : text;
}

/** @param {unknown} value any value of a setting or field in words; "none" where it says nothing */
export function valueText(value) {
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return String(value ?? "") || "none";
}

/** @type {Record<string, [string, string]>} shape and word, by trust */
export const TRUST = {
  user: ["●", "you"],
  note: ["■", "note"],
  agent: ["◇", "agent"],
  import: ["▽", "import"],
  tool: ["□", "tool"],
};
