// What the colours of the map stand for, and its topics as a table.

import { table } from "../../controls.js";
import { count, counted, memories as memoriesText } from "../../format.js";
import { h } from "../../html.js";

/** @typedef {import("../../map_colours.js").Colouring} Colouring */

export const LIT = 100; // that a search lights up
const SHOWN = 24; // categories
const NEAR = 3; // topics that lie next to one

/**
 * @param {string} by
 * @param {Colouring} colours
 * @param {number | null} lit points that a search lights up
 * @param {string | null} only the category that is shown alone
 * @param {(key: string) => void} choose
 * @returns {import("../../html.js").Children}
 */
export function legend(by, { categories }, lit, only, choose) {
  const left = categories.slice(SHOWN);
  const total = categories.reduce((sum, each) => sum + each.count, 0);
  const matches = lit === LIT ? `the ${count(LIT)} best matches of ` : `${count(lit ?? 0)} match, of `;
  const rows = categories.slice(0, SHOWN).map((each) => {
    const key = each.key || "none";
    return h(
      "li",
      h(
        "button.plain",
        { "aria-pressed": String(only === key), on: { click: () => choose(key) } },
        h("i", { style: { background: `var(${each.token})` } }),
        h("span.grow.line-clamp", { dir: "auto" }, each.name),
        h("span.number", count(each.count)),
      ),
    );
  });
  return [
    h("div.row", h("h2.grow", by === "topic" ? "Topics" : `By ${by}`), h("span.meta", "click: only this one")),
    lit === null ? null : h("p.meta", { role: "status" }, `${matches}${count(total)}`),
    h("ul.plain-list.legend-list", rows),
    left.length
      ? h(
          "p.meta",
          `and ${counted(left.length, "smaller one")} with ${memoriesText(left.reduce((sum, each) => sum + each.count, 0))}`,
        )
      : null,
  ];
}

/**
 * Return the topics with their sizes and the topics that lie next to each.
 * @param {Colouring} colours by topic
 * @param {import("../../map_points.js").Points} points
 */
export function topicTable({ categories, ownOf }, points) {
  /** @type {number[][]} */
  const members = categories.map(() => []);
  ownOf.forEach((own, at) => members[own].push(at));
  const places = members.map((each) => points.place(each));
  const distance = (/** @type {number} */ one, /** @type {number} */ other) =>
    Math.hypot(places[one].x - places[other].x, places[one].y - places[other].y);
  const rows = categories.map((each, own) => {
    const others = categories.map((_, other) => other).filter((other) => other !== own && categories[other].key);
    const near = others.sort((one, other) => distance(one, own) - distance(other, own)).slice(0, NEAR);
    const words = near.map((other) => categories[other].name).join(" · ");
    return h(
      "tr",
      h("td", { dir: "auto" }, each.name),
      h("td.number", { "data-label": "memories" }, count(each.count)),
      h("td", { "data-label": "near it" }, each.key ? words : "everywhere"),
    );
  });
  return table(["topic", "#memories", "near it"], rows);
}
