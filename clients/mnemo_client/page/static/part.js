// Parts of a view that are read on their own, and lists of rows that are no memories.

import { ApiError } from "./api.js";
import { count } from "./format.js";
import { button, fill, h, plainButton } from "./html.js";

/** @typedef {import("./app.js").Page} Page */
/** @typedef {import("./html.js").Children} Children */

const SLOW_MS = 300;

/** @type {WeakMap<HTMLElement, AbortController>} the last reading of a place */
const readings = new WeakMap();

/**
 * Fill a place with what is read for it. What stands there stays until then; a newer reading ends the one before; an
 * error is said in the place, with a way to try again.
 * @template T
 * @param {Page} page
 * @param {HTMLElement} place
 * @param {(signal: AbortSignal) => Promise<T>} read
 * @param {(answer: T) => Children} draw
 * @param {string} [what] what is read, said if it takes long
 */
export async function readInto(page, place, read, draw, what = "reading") {
  stopReading(place);
  const reading = new AbortController();
  readings.set(place, reading);
  const isLast = () => readings.get(place) === reading;
  const slow = setTimeout(() => {
    if (isLast() && !place.hasChildNodes()) fill(place, h("p.meta", { role: "status" }, `${what} …`));
  }, SLOW_MS);
  try {
    const answer = await read(reading.signal);
    if (isLast()) fill(place, draw(answer));
  } catch (error) {
    if (!isLast() || isAborted(error)) return;
    if (!(error instanceof ApiError)) throw error;
    if (error.isGone) return page.noteDaemon(false);
    fill(
      place,
      failure(error.message, () => void readInto(page, place, read, draw, what)),
    );
  } finally {
    clearTimeout(slow);
  }
}

/**
 * End the reading of a place, if one is under way.
 * @param {HTMLElement} place
 */
export function stopReading(place) {
  readings.get(place)?.abort();
}

/** @param {unknown} error */
const isAborted = (error) => error instanceof DOMException && error.name === "AbortError";

/**
 * Say what failed in the place of what was to be seen, with a way to try again.
 * @param {string} message
 * @param {() => void} again
 */
export const failure = (message, again) =>
  h("p.row.failure", h("span.warn", `⚠ ${message}`), button("Again", "", again));

/** Changes that were heard since something was read: "3 new", which takes them in. */
export class News {
  /** @param {() => void} take */
  constructor(take) {
    this.take = take;
    this.count = 0;
    this.place = h("span.news");
  }

  /** @param {number} number */
  add(number) {
    this.count += number;
    this.draw();
  }

  clear() {
    this.count = 0;
    this.draw();
  }

  draw() {
    fill(this.place, this.count ? button(`${count(this.count)} new`, ".", this.take, { class: "new" }) : null);
  }
}

/**
 * Return an answer, or null where the daemon does not know the route.
 * @template T
 * @param {Promise<T>} asked
 * @returns {Promise<T | null>}
 */
export async function ifKnown(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 405)) return null;
    throw error;
  }
}

/**
 * The rows of a place, one of which has the tab stop. A row is an element with `data-row`, its key.
 */
export class Rows {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.key = "";
    place.addEventListener("focusin", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest("[data-row]");
      if (row) this.mark(/** @type {HTMLElement} */ (row));
    });
  }

  get all() {
    return /** @type {HTMLElement[]} */ ([...this.place.querySelectorAll("[data-row]")]);
  }

  get selected() {
    return this.all.find((row) => row.dataset.row === this.key) ?? null;
  }

  /** @param {HTMLElement} row */
  mark(row) {
    this.key = row.dataset.row ?? "";
    for (const each of this.all) each.tabIndex = each === row ? 0 : -1;
  }

  /** Give the tab stop to the row that had it, or to the first. */
  keep() {
    const row = this.selected ?? this.all[0];
    if (row) this.mark(row);
  }

  /** @param {number} delta */
  step(delta) {
    const { all, selected } = this;
    const at = selected?.contains(document.activeElement)
      ? all.indexOf(selected) + delta
      : selected
        ? all.indexOf(selected)
        : 0;
    all[Math.min(all.length - 1, Math.max(0, at))]?.focus();
  }
}

/** A part of a view whose rows stand for memories, by their key or `data-id`. */
export class MemoryRows {
  /** @param {Page} page @param {HTMLElement} list */
  constructor(page, list) {
    this.page = page;
    this.list = list;
    this.rows = new Rows(list);
  }

  /** @returns {string | null} */
  current() {
    return this.rows.selected?.dataset.id ?? null;
  }
  /** @param {number} delta */
  step(delta) {
    this.rows.step(delta);
  }
  open() {
    const id = this.current();
    if (id) this.page.set({ id });
  }
}

/**
 * Offer the older rows of a list in a place, for as long as there are some.
 * @param {Page} page
 * @param {HTMLElement} place
 * @param {string} label
 * @param {string | null} cursor
 * @param {(cursor: string) => Promise<string | null>} add puts the next rows in, and returns the next cursor
 */
export function offerOlder(page, place, label, cursor, add) {
  const more = () =>
    add(/** @type {string} */ (cursor)).then(
      (next) => offerOlder(page, place, label, next, add),
      (error) => page.fail(error),
    );
  fill(place, cursor ? plainButton(label, () => void more()) : null);
}

/**
 * Say that nothing is there: what is missing, why, and what can be done.
 * @param {string} title
 * @param {Children} why
 * @param {...Children} steps
 */
export function emptyState(title, why, ...steps) {
  return h("div.empty", h("h2", title), h("p", why), ...steps);
}

/**
 * A command line to be typed, with what it does.
 * @param {string} text
 * @param {string} command
 */
export const commandLine = (text, command) => h("div", h("p", text), h("pre", { tabindex: 0 }, h("code", command)));

/** The commands with which a memory begins. */
export const firstSteps = () => [
  commandLine("Have a folder of notes remembered, and every change of it:", "mnemo notes add ~/notes"),
  commandLine("Remember one thing:", "mnemo add 'The spare key is with Ines.'"),
];
