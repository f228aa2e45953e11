// Parts of a view that are read on their own, and lists of rows that are no memories.

import { ApiError } from "./api.js";
import { button, fill, h } from "./html.js";

/** @typedef {import("./app.js").Page} Page */
/** @typedef {import("./html.js").Children} Children */

const SLOW_MS = 300;

/** @type {WeakMap<HTMLElement, number>} the number of the last reading of a place */
const readings = new WeakMap();

/**
 * Fill a place with what is read for it. What stands there stays until then; an older answer never follows a newer
 * one; an error is said in the place, with a way to try again.
 * @template T
 * @param {Page} page
 * @param {HTMLElement} place
 * @param {() => Promise<T>} read
 * @param {(answer: T) => Children} draw
 * @param {string} [what] what is read, said if it takes long
 */
export async function readInto(page, place, read, draw, what = "reading") {
  const number = (readings.get(place) ?? 0) + 1;
  readings.set(place, number);
  const isLast = () => readings.get(place) === number;
  const slow = setTimeout(() => {
    if (isLast() && !place.hasChildNodes()) fill(place, h("p", { class: "meta", role: "status" }, `${what} …`));
  }, SLOW_MS);
  try {
    const answer = await read();
    if (isLast()) fill(place, draw(answer));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!isLast()) return;
    if (error.isGone) return page.noteDaemon(false);
    fill(
      place,
      h(
        "p",
        { class: "row" },
        h("span", { class: "warn" }, `⚠ ${error.message}`),
        button("Again", "", () => void readInto(page, place, read, draw, what)),
      ),
    );
  } finally {
    clearTimeout(slow);
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

/**
 * Say that nothing is there: what is missing, why, and what can be done.
 * @param {string} title
 * @param {Children} why
 * @param {...Children} steps
 */
export function emptyState(title, why, ...steps) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, why), ...steps);
}

/**
 * A command line to be typed, with what it does.
 * @param {string} text
 * @param {string} command
 */
export function commandLine(text, command) {
  return h("div", {}, h("p", {}, text), h("pre", {}, h("code", {}, command)));
}
