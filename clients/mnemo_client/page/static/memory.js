// How a memory looks in a list, and what can be done with it from everywhere.

import { ApiError, call } from "./api.js";
import { day, origin, TRUST } from "./format.js";
import { h, memoryText, s } from "./html.js";

/** @typedef {import("../api_types").MemoryView} Memory */
/** @typedef {import("./app.js").Page} Page */

/** @type {Record<string, (place: SVGElement) => void>} */
const SHAPES = {
  user: (place) => place.append(s("circle", { cx: 5, cy: 5, r: 4.5 })),
  note: (place) => place.append(s("rect", { x: 0.8, y: 0.8, width: 8.4, height: 8.4 })),
  agent: (place) => place.append(s("path.hollow", { d: "M5 .8 9.2 5 5 9.2 .8 5Z" })),
  import: (place) => place.append(s("path.hollow", { d: "M.8 1.5h8.4L5 9Z" })),
  tool: (place) => place.append(s("rect.hollow", { x: 1, y: 1, width: 8, height: 8 })),
};

/**
 * Return the sign and the word that say whose word a memory is.
 * @param {string} trust
 */
export function trustMark(trust) {
  const mark = s("svg.trust", { viewBox: "0 0 10 10", "aria-hidden": "true" });
  SHAPES[trust]?.(mark);
  return h("span.who", mark, ` ${TRUST[trust]?.[1] ?? trust}`);
}

/**
 * Return the line below a memory: whose word, from where, when, and what it is.
 * @param {Memory} memory
 * @param {{date?: string}} [options] date: instead of the day on which it happened
 */
export function metaLine(memory, { date = day(memory.event_at) } = {}) {
  const kept = memory.state === "archived" ? "archive" : memory.layer;
  const kinds = [memory.kind === "semantic" ? "" : memory.kind, kept, memory.pinned ? "pinned" : ""].filter(Boolean);
  return h(
    "span.meta",
    trustMark(memory.trust),
    h("b.origin", { dir: "auto" }, origin(memory)),
    h("time", { datetime: new Date(memory.event_at).toISOString() }, date),
    h("span", kinds.join(" · ")),
    memory.state === "active" || memory.state === "archived" ? null : h("span.badge.past", memory.state),
    memory.tags.filter((tag) => !/^_|:/.test(tag)).map((tag) => h("span.tag", { dir: "auto" }, `#${tag}`)),
  );
}

/**
 * Return a text of a memory that opens its card.
 * @param {Page} page
 * @param {string} id
 * @param {import("./html.js").Children} text
 * @param {string} [kind]
 */
export const memoryLink = (page, id, text, kind = "") =>
  h(`button.plain.memory-link${kind}`, { on: { click: () => page.set({ id }) } }, text);

/**
 * Return the text of a memory; one that is sensitive only when it is asked for.
 * @param {Memory & {best?: {text: string, marks: [number, number][]} | null}} memory
 */
export function excerpt(memory) {
  const text = () => (memory.best ? memoryText(memory.best.text, memory.best.marks) : memoryText(memory.content));
  if (!memory.tags.includes("sensitive")) return text();
  // Not a button: a row of a list has none in it. By keyboard, the memory's card shows the text.
  const cover = h(
    "span.cover",
    {
      on: {
        click: (/** @type {Event} */ event) => {
          event.stopPropagation();
          cover.replaceWith(text());
        },
      },
    },
    "sensitive: click to see the text, or open it",
  );
  return cover;
}

/**
 * A list of memories with one tab stop. `chosen` is called when another one is selected.
 * @param {Page} page
 * @param {string} label
 * @param {(id: string) => void} [chosen]
 */
export function memoryList(page, label, chosen) {
  const list = h("div.hits", { role: "group", "aria-label": label, tabindex: 0 });
  // A list box has options; what stands in the place of an empty list are none, and none of them is selected.
  new MutationObserver(() => {
    list.setAttribute("role", list.querySelector("[role=option]") ? "listbox" : "group");
    if (!selected?.isConnected) list.removeAttribute("aria-activedescendant");
  }).observe(list, { childList: true });
  /** @type {HTMLElement | null} */
  let selected = null;
  const rows = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=option]")]);
  const select = (/** @type {HTMLElement | undefined} */ row, isQuiet = false) => {
    if (!row || row === selected) return;
    selected?.setAttribute("aria-selected", "false");
    selected = row;
    row.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", row.id);
    if (!isQuiet) row.scrollIntoView({ block: "nearest" });
    const id = row.dataset.id ?? "";
    chosen?.(id);
    if (page.card && !isQuiet) page.open(id);
  };
  const current = () => (selected?.isConnected ? (selected.dataset.id ?? null) : null);
  list.addEventListener("click", (event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest("[role=option]");
    if (!row || getSelection()?.toString()) return;
    select(/** @type {HTMLElement} */ (row));
    page.set({ id: current() });
  });
  return {
    list,
    current,
    /** @param {string} id */
    select: (id) =>
      select(
        rows().find((row) => row.dataset.id === id),
        true,
      ),
    /**
     * Select the first row, unless the one that was selected is still there and `isNew` is not said.
     * @param {boolean} [isNew] the rows are others than before
     */
    keep: (isNew = false) => {
      const before = isNew ? undefined : selected?.dataset.id;
      selected = null;
      const all = rows();
      select((before && all.find((row) => row.dataset.id === before)) || all[0], true);
    },
    /** @param {number} delta */
    step: (delta) => {
      const all = rows();
      const at = selected ? all.indexOf(selected) : -1;
      select(all[Math.min(all.length - 1, Math.max(0, at + delta))]);
    },
    open: () => {
      const id = current();
      if (id) page.set({ id });
    },
    checked: () =>
      rows()
        .filter((row) => row.getAttribute("aria-checked") === "true")
        .map((row) => row.dataset.id ?? ""),
    check: () => {
      const isChecked = selected?.getAttribute("aria-checked") === "true";
      selected?.setAttribute("aria-checked", String(!isChecked));
    },
  };
}

let rowNumber = 0;

/**
 * Return a row for a list of memories.
 * @param {Memory} memory
 * @param {import("./html.js").Attributes} attributes
 * @param {...import("./html.js").Children} children
 */
export function memoryRow(memory, attributes, ...children) {
  rowNumber += 1;
  return h(
    "div",
    {
      role: "option",
      id: `row-${rowNumber}`,
      "data-id": memory.id,
      "aria-selected": "false",
      ...attributes,
      class: `hit ${attributes.class ?? ""}`,
    },
    ...children,
  );
}

/**
 * Return a plain row: text and meta line.
 * @param {Memory} memory
 * @param {{date?: string}} [options]
 */
export const plainRow = (memory, options) =>
  memoryRow(memory, {}, h("div.body", excerpt(memory), metaLine(memory, options)));

// Writes, each with its way back

/** @param {number | null | undefined} seq of the write; none if it changed nothing */
export const undoOf = (seq) => (seq ? () => call("POST /v1/undo", { seq }) : null);

/**
 * Take a change back, by its number; its undo has it again.
 * @param {Page} page
 * @param {number} seq
 */
export const takeBack = (page, seq) =>
  page.write(async () => {
    const { undo_seq } = await call("POST /v1/undo", { seq });
    return { text: `Change ${seq} was taken back`, undo: undoOf(undo_seq) };
  });

/** @param {Page} page @param {Memory} memory */
export const pin = (page, memory) =>
  change(
    page,
    memory.id,
    { pinned: !memory.pinned, if_version: memory.version },
    memory.pinned ? "No longer pinned" : "Pinned: it stays in core",
  );

/** @param {Page} page @param {string} id */
export const trash = (page, id) =>
  page.write(async () => {
    await call("DELETE /v1/memories/{id}", {}, { part: id });
    return { text: "In the trash", undo: () => call("POST /v1/memories/{id}/restore", {}, { part: id }) };
  });

/** @param {Page} page @param {string} id */
export const restore = (page, id) =>
  page.write(async () => {
    const { seq } = await call("POST /v1/memories/{id}/restore", {}, { part: id });
    return { text: "Restored", undo: undoOf(seq) };
  });

/**
 * @param {Page} page
 * @param {string} id
 * @param {import("../api_types").Patch} patch
 * @param {string} text what is said when it is done
 */
export const change = (page, id, patch, text) =>
  page.write(async () => {
    const { seq } = await call("PATCH /v1/memories/{id}", patch, { part: id });
    return { text, undo: undoOf(seq) };
  });

/**
 * Move a memory to another layer, to the archive, or to another namespace.
 * @param {Page} page
 * @param {string} id
 * @param {import("../api_types").MoveRequest} where
 */
export const move = (page, id, where) =>
  page.write(async () => {
    const { outcome, memory, seq } = await call("POST /v1/memories/{id}/move", where, { part: id });
    const place = where.namespace ?? (where.archived ? "the archive" : memory.layer);
    const said = {
      moved: `Moved to ${place}`,
      unchanged: `It is in ${place} already`,
      duplicate: `${place} has this text already: it counts once more there, and this one is in the trash`,
    };
    return { text: said[outcome], undo: undoOf(seq) };
  });

const SENSITIVE_MAX = 500;

/**
 * Return the ids of the sensitive memories, for lists whose entries have a text but no tags.
 * @param {string | null | undefined} namespace
 */
export async function sensitiveIds(namespace) {
  const { memories } = await call("GET /v1/memories", { namespace, tag: ["sensitive"], limit: SENSITIVE_MAX });
  return new Set(memories.map((each) => each.id));
}

/**
 * Return a text of a memory whose tags are not at hand, covered if it is sensitive.
 * @param {string} text
 * @param {boolean} isSensitive
 */
export const textOrCover = (text, isSensitive) =>
  excerpt(/** @type {any} */ ({ content: text, tags: isSensitive ? ["sensitive"] : [] }));

// The same change of many memories, a few at a time

const TOGETHER = 4;

/** @param {Memory} memory @param {string} tag */
export async function tagged(memory, tag) {
  if (memory.tags.includes(tag)) return null;
  const patch = { tags: [...memory.tags, tag], if_version: memory.version };
  return (await call("PATCH /v1/memories/{id}", patch, { part: memory.id })).seq;
}

/** @param {Memory} memory @param {import("../api_types").MoveRequest} to */
export async function moved(memory, to) {
  return (await call("POST /v1/memories/{id}/move", { ...to, if_version: memory.version }, { part: memory.id })).seq;
}

/**
 * Do something with each, a few at a time. Returns the messages of those that failed.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => Promise<void>} act
 */
export async function together(items, act) {
  /** @type {string[]} */
  const failed = [];
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      try {
        await act(item);
      } catch (error) {
        if (!(error instanceof ApiError) || error.isGone) throw error;
        failed.push(error.message);
      }
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return failed;
}
