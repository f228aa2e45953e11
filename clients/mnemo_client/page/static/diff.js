// The difference of two texts by words.

import { h } from "./html.js";

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Part */

const CELLS_MAX = 4_000_000; // of the table of common words; beyond it, what lies between common ends is one change
const FOLD_WORDS = 12; // an unchanged run that is longer is folded

/**
 * Return the parts of the change from one text to another, removed before added.
 * @param {string} before
 * @param {string} after
 * @returns {Part[]}
 */
export function wordDifference(before, after) {
  const from = wordsOf(before);
  const to = wordsOf(after);
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start += 1;
  let end = 0;
  while (end < from.length - start && end < to.length - start && from.at(-1 - end) === to.at(-1 - end)) end += 1;
  /** @type {Part[]} */
  const parts = [];
  add(parts, "same", from.slice(0, start));
  middle(parts, from.slice(start, from.length - end), to.slice(start, to.length - end));
  add(parts, "same", from.slice(from.length - end));
  return parts;
}

// A word, joined ones such as 9:30 and rotate.sh whole, or a sign, each with the white space before it.
const WORDS = /\s*(?:[\p{L}\p{M}\p{N}_]+(?:['’.,:/@-][\p{L}\p{M}\p{N}_]+)*|\S)|\s+$/gu;

/** @param {string} text */
const wordsOf = (text) => text.match(WORDS) ?? [];

/** @param {Part[]} parts @param {Part["kind"]} kind @param {string[]} words */
function add(parts, kind, words) {
  if (!words.length) return;
  const last = parts.at(-1);
  if (last?.kind === kind) last.text += words.join("");
  else parts.push({ kind, text: words.join("") });
}

/** @param {Part[]} parts @param {string[]} from @param {string[]} to */
function middle(parts, from, to) {
  if (!from.length || !to.length || from.length * to.length > CELLS_MAX) {
    add(parts, "removed", from);
    add(parts, "added", to);
    return;
  }
  // The longest common sequence, by the lengths of those of the ends.
  const width = to.length + 1;
  const lengths = new Uint16Array((from.length + 1) * width);
  for (let i = from.length - 1; i >= 0; i -= 1) {
    for (let j = to.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        from[i] === to[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  let i = 0;
  let j = 0;
  /** @type {string[]} */
  let removed = [];
  /** @type {string[]} */
  let added = [];
  const flush = () => {
    add(parts, "removed", removed);
    add(parts, "added", added);
    removed = [];
    added = [];
  };
  while (i < from.length || j < to.length) {
    if (i < from.length && j < to.length && from[i] === to[j]) {
      flush();
      add(parts, "same", [from[i]]);
      i += 1;
      j += 1;
    } else if (j >= to.length || (i < from.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      removed.push(from[i]);
      i += 1;
    } else {
      added.push(to[j]);
      j += 1;
    }
  }
  flush();
}

/**
 * Return the difference for a reader: removed words struck, added ones underlined, long unchanged runs folded.
 * @param {string} before
 * @param {string} after
 */
export const difference = (before, after) => drawn(wordDifference(before, after), ["removed: ", "added: "]);

/**
 * Return both sides of a difference, each with its own words alone: those only in the first struck, those only in the
 * second underlined.
 * @param {string} before
 * @param {string} after
 */
export function differenceSides(before, after) {
  const parts = wordDifference(before, after);
  const names = /** @type {[string, string]} */ (["only here: ", "only here: "]);
  return {
    before: drawn(
      parts.filter((part) => part.kind !== "added"),
      names,
    ),
    after: drawn(
      parts.filter((part) => part.kind !== "removed"),
      names,
    ),
  };
}

/**
 * @param {Part[]} parts
 * @param {[string, string]} names said before what is removed and what is added
 */
function drawn(parts, names) {
  const place = h("span.text.diff", { dir: "auto" });
  for (const [index, { kind, text }] of parts.entries()) {
    const words = text.trimStart();
    const space = text.slice(0, text.length - words.length);
    if (kind === "same") place.append(...folded(text));
    else if (kind === "removed") place.append(space, h("del", h("span.hidden", names[0]), words));
    else
      place.append(
        space || (parts[index - 1]?.kind === "removed" ? " " : ""),
        h("ins", h("span.hidden", names[1]), words),
      );
  }
  return place;
}

/** @param {string} text @returns {Node[]} */
function folded(text) {
  const words = wordsOf(text);
  if (words.length <= FOLD_WORDS) return [h("span", text)];
  const between = words.slice(4, -4).join("");
  const more = h(
    "button.plain",
    { title: "show the unchanged words", on: { click: () => more.replaceWith(h("span", between)) } },
    " … ",
  );
  return [h("span", words.slice(0, 4).join("")), more, h("span", words.slice(-4).join(""))];
}
