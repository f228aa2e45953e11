// What a day has, in rows: memories, changes, and sessions and files that open; and where it came from.

import { difference } from "./diff.js";
import { clock, count, counted, duration, memories as memoriesText, shortPath, valueText } from "./format.js";
import { h, s } from "./html.js";
import { excerpt, memoryRow, metaLine, trustMark } from "./memory.js";

/** @typedef {import("../api_types").MemoryView} Memory */
/** @typedef {import("../api_types").DifferenceView} Difference */
/** @typedef {{at: number, memory: Memory, change: Difference | null}} Item what the day has at a time */

/**
 * The order of a day; ids grow with the time when they were made.
 * @param {Item} one
 * @param {Item} other
 */
export const inTime = (one, other) => one.at - other.at || (one.memory.id < other.memory.id ? -1 : 1);

/**
 * Return the items with those of a session and of a file together, where the first of them is.
 * @param {Item[]} items
 */
export function grouped(items) {
  /** @type {Map<string, Item[]>} */
  const groups = new Map();
  items.forEach((item, index) => {
    const { memory } = item;
    const key = item.change
      ? `${index}`
      : memory.note
        ? `note ${memory.note.path}`
        : memory.session_id
          ? `session ${memory.session_id}`
          : `${index}`;
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  });
  return [...groups.values()];
}

/**
 * @param {Item} item
 * @param {boolean} [isInside] in a session or file that is opened
 */
export function itemRow({ at, memory, change }, isInside = false) {
  return memoryRow(
    memory,
    { class: isInside ? "inside" : "", hidden: isInside },
    h("time.when", clock(at)),
    h(
      "div.body",
      change ? changeText(change, memory) : excerpt(memory),
      change
        ? h(
            "span.meta",
            trustMark(memory.trust),
            h("span", [change.how, `by ${change.by || "you"}`, `version ${memory.version}`].join(" · ")),
          )
        : metaLine(memory, { date: "" }),
    ),
    change ? h("span.badge", change.how) : null,
  );
}

/** @param {Difference} change @param {Memory} memory */
function changeText(change, memory) {
  const isHidden = memory.tags.includes("sensitive");
  const before = change.before.content;
  if (!isHidden && typeof before === "string" && typeof change.after.content === "string")
    return difference(before, change.after.content);
  const fields = change.fields
    .filter((field) => field !== "content" && field in change.after)
    .map(
      (field) => `${field.replaceAll("_", " ")} ${valueText(change.before[field])} → ${valueText(change.after[field])}`,
    );
  return h("div", excerpt(memory), fields.length ? h("div.meta", fields.join(" · ")) : null);
}

/** @param {Item[]} items of one session or one file */
export function groupRow(items) {
  const [{ at, memory }] = items;
  const last = items[items.length - 1];
  const archived = items.filter((each) => each.memory.state === "archived").length;
  const visible = items.filter((each) => !each.memory.tags.includes("sensitive"));
  const title = memory.note
    ? `${shortPath(memory.note.path)}: ${counted(items.length, "passage")}`
    : `${[memory.agent_id ?? memory.source, memory.session_id].join(" › ")}: ${memoriesText(items.length)}, ${duration(Math.max(60_000, last.at - at) / 1000)}`;
  const words = memory.note
    ? [...new Set(items.map((each) => each.memory.note?.headings.at(-1)).filter(Boolean))].join(" · ")
    : (visible[0]?.memory.content ?? "");
  const row = memoryRow(
    memory,
    { class: "group" },
    h("time.when", clock(at)),
    h(
      "div.body",
      h("span.text.group-text", { dir: "auto" }, title, " ", h("span.group-words", words)),
      h(
        "span.meta",
        trustMark(memory.trust),
        h(
          "span",
          memory.note
            ? "watched folder"
            : archived
              ? `${count(items.length - archived)} kept, ${count(archived)} archived`
              : "all kept",
        ),
      ),
    ),
    h(
      "span.more-sign",
      `${memory.note ? counted(items.length, "passage") : count(items.length)} `,
      h("span.arrow", { "aria-hidden": "true" }, "›"),
      h("span.hidden", "closed"),
    ),
  );
  row.removeAttribute("data-id");
  return [row, ...items.map((item) => itemRow(item, true))];
}

/** @param {import("../api_types").TimelineAnswer} counts @returns {[string, number][]} */
export function sourcesOf(counts) {
  /** @type {Record<string, string>} */
  const names = {
    cli: "you, mnemo add",
    page: "you, this page",
    note: "notes",
    turn: "conversations",
    api: "programs",
    facts: "facts",
    "": "others",
  };
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const each of counts.sources) {
    const name = names[each.name] ?? each.name;
    sums.set(name, (sums.get(name) ?? 0) + each.count);
  }
  return [...sums].sort((one, other) => other[1] - one[1]);
}

/** @param {number[]} hours */
export function hoursPicture(hours) {
  const most = Math.max(1, ...hours);
  const full = hours.indexOf(most);
  const label = `by hour of the day; most from ${full} to ${full + 1} o'clock, ${count(most)}`;
  return h(
    "div.hours",
    s(
      "svg",
      { viewBox: "0 0 240 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
      hours.map((each, hour) =>
        s(
          "rect",
          {
            x: hour * 10 + 0.5,
            width: 8,
            y: each ? 40 - Math.max(2, (38 * each) / most) : 39,
            height: each ? Math.max(2, (38 * each) / most) : 1,
            class: each ? "" : "none",
          },
          s("title", `${hour} to ${hour + 1}: ${count(each)}`),
        ),
      ),
    ),
    h(
      "div.hour-names.meta",
      [0, 6, 12, 18].map((hour) => h("span", String(hour))),
    ),
  );
}
