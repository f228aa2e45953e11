// Markdown as a fixed set of elements: every word of the text stays text, and no address can be followed.

import { h } from "./html.js";

/** @typedef {import("./html.js").Children} Children */

const DEPTH_MAX = 4; // of quotations and of lists in lists
const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^ {0,3}#{1,6} +(?<text>.*?)(?: +#+)? *$/;
const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,}) *$/;
const ITEM = /^(?<indent> *)(?<mark>[-*+]|\d{1,9}[.)]) +(?<text>.*)$/;
const QUOTE = /^ {0,3}> ?(?<text>.*)$/;
const TABLE = /^ {0,3}\|.*\| *$/;
const INLINE =
  /(?<tick>`{1,3})(?<code>[^`]+)\k<tick>|\*\*(?<bold>[^\s*](?:[^*]*[^\s*])?)\*\*|(?<![\w*])\*(?<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])|\[(?<words>[^[\]]+)\]\((?<address>[^()\s]+)\)/g;

/**
 * Return the text with its headings, lists, quotations, code and emphasis as elements.
 * @param {string} text
 * @param {boolean} keepsLines each line break is one, as in what is said
 */
export const markdown = (text, keepsLines) =>
  h("div", { class: keepsLines ? "markdown said-so" : "markdown" }, blocks(text.split("\n"), 0));

/** @param {string[]} lines @param {number} depth @returns {Children[]} */
function blocks(lines, depth) {
  /** @type {Children[]} */
  const made = [];
  let at = 0;
  /** @param {(line: string) => boolean} holds */
  const take = (holds) => {
    const from = at;
    while (at < lines.length && holds(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line)?.[1];
    if (!line.trim()) {
      at += 1;
    } else if (fence) {
      at += 1;
      const code = take((each) => !each.trimStart().startsWith(fence));
      at += 1;
      made.push(preformatted(code));
    } else if (TABLE.test(line)) {
      made.push(preformatted(take((each) => TABLE.test(each))));
    } else if (RULE.test(line)) {
      at += 1;
      made.push(h("hr"));
    } else if (HEADING.test(line)) {
      at += 1;
      made.push(h("p.heading", { dir: "auto" }, inline(HEADING.exec(line)?.groups?.text ?? "")));
    } else if (QUOTE.test(line) && depth < DEPTH_MAX) {
      const quoted = take((each) => QUOTE.test(each)).map((each) => QUOTE.exec(each)?.groups?.text ?? "");
      made.push(h("blockquote", blocks(quoted, depth + 1)));
    } else if (ITEM.test(line) && depth < DEPTH_MAX) {
      made.push(
        list(
          take((each) => ITEM.test(each) || /^ {2,}\S/.test(each)),
          depth,
        ),
      );
    } else {
      at += 1;
      const paragraph = [line, ...take((each) => isPlain(each))];
      made.push(h("p.text", { dir: "auto" }, inline(paragraph.join("\n"))));
    }
  }
  return made;
}

/** @param {string} line */
const isPlain = (line) =>
  line.trim() !== "" && ![FENCE, HEADING, RULE, ITEM, QUOTE, TABLE].some((pattern) => pattern.test(line));

/** @param {string[]} lines */
const preformatted = (lines) => h("pre", { dir: "auto", tabindex: 0 }, lines.join("\n"));

/**
 * Return a list; a line that is indented further than its first item belongs to the item before it.
 * @param {string[]} lines of which the first is an item
 * @param {number} depth
 */
function list(lines, depth) {
  const indent = (/** @type {string} */ line) => line.length - line.trimStart().length;
  const least = indent(lines[0]);
  /** @type {string[][]} */
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    const own = items.at(-1);
    if (item && (indent(line) <= least || !own)) items.push([item.groups?.text ?? ""]);
    else own?.push(line.slice(Math.min(indent(line), least + 2)));
  }
  const mark = ITEM.exec(lines[0])?.groups?.mark ?? "-";
  const isNumbered = /\d/.test(mark);
  return h(
    isNumbered ? "ol" : "ul",
    { start: isNumbered ? Number.parseInt(mark, 10) : null },
    items.map((each) => h("li", { dir: "auto" }, blocks(each, depth + 1))),
  );
}

/** @param {string} text @returns {Children[]} */
function inline(text) {
  /** @type {Children[]} */
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const { code, bold, slanted, words, address } = found.groups ?? {};
    parts.push(text.slice(at, found.index));
    if (code) parts.push(h("code", code));
    else if (bold) parts.push(h("b", bold));
    else if (slanted) parts.push(h("i", slanted));
    else parts.push(words, h("span.address", ` (${address})`));
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}
