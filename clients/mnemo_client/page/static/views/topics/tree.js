// The topics as rows of a tree, and as areas by size.

import { count } from "../../format.js";
import { h } from "../../html.js";
import { treemap } from "../../treemap.js";

/** @typedef {import("../../../api_types").TopicView} Topic */
/** @typedef {{children: Map<string, Topic[]>, opened: Set<string>, chosen: string}} Tree by the key of what is above */

const NAMED_AREA = 34; // px: the least height of an area that has a name
const AREA_HEIGHT = 560;

/**
 * Return the name of a topic; one whose words may not be shown is called by its id.
 * @param {Topic} topic
 */
export const nameOf = ({ name, id }) => (name === id ? "(no words of it may be shown)" : name);

/** @param {Topic} topic */
export const keyOf = (topic) => `${topic.namespace}/${topic.id}`;

/**
 * Return the topics that are seen, in their order.
 * @param {Tree} tree
 */
export function visible({ children, opened }) {
  /** @type {Topic[]} */
  const rows = [];
  const walk = (/** @type {string} */ above) => {
    for (const topic of children.get(above) ?? []) {
      rows.push(topic);
      if (opened.has(keyOf(topic))) walk(keyOf(topic));
    }
  };
  walk("");
  return rows;
}

/**
 * Return the rows of the topics that are seen.
 * @param {Tree} tree
 * @param {number | null} outside memories that no topic has; null: not known
 * @returns {import("../../html.js").Children}
 */
export function treeRows(tree, outside) {
  const rows = visible(tree);
  if (!rows.length) return null;
  const all = [...tree.children.values()].flat();
  const most = Math.max(1, outside ?? 0, ...all.map((topic) => topic.count));
  const hasNamespaces = new Set(all.map((topic) => topic.namespace)).size > 1;
  return [
    h(
      "div.topic-row.head",
      { role: "row" },
      h("span.grow", { role: "columnheader" }, "name"),
      h("span.topic-meter", { role: "columnheader" }, "memories"),
      h("span.number.hidden", { role: "columnheader" }, "number"),
    ),
    rows.map((topic) => row(tree, topic, most, hasNamespaces)),
    outside
      ? h(
          "div.topic-row",
          { role: "row" },
          h("span.topic-name.grow.outside", { role: "gridcell" }, h("b", "no topic")),
          meterCell(outside, most),
          h("span.number", { role: "gridcell" }, count(outside)),
        )
      : null,
  ];
}

/**
 * @param {Tree} tree
 * @param {Topic} topic
 * @param {number} most
 * @param {boolean} hasNamespaces topics of several are shown
 */
function row({ children, opened, chosen }, topic, most, hasNamespaces) {
  const key = keyOf(topic);
  const isParent = children.has(key);
  const isOpen = opened.has(key);
  return h(
    "div.topic-row",
    {
      role: "row",
      id: `topic-${key}`,
      "data-topic": key,
      "aria-level": topic.level + 1,
      "aria-selected": String(key === chosen),
      "aria-expanded": isParent ? String(isOpen) : null,
    },
    h(
      "span.topic-name.grow",
      { role: "gridcell", style: { "padding-inline-start": `${8 + 20 * topic.level}px` }, title: nameOf(topic) },
      h("span.twisty", { "aria-hidden": "true" }, isParent ? (isOpen ? "▾" : "▸") : ""),
      h(topic.level ? "span" : "b", { dir: "auto" }, nameOf(topic)),
      hasNamespaces && !topic.level && topic.namespace !== "default" ? h("span.badge", topic.namespace) : null,
    ),
    meterCell(topic.count, most),
    h("span.number", { role: "gridcell" }, count(topic.count)),
  );
}

/** @param {number} value @param {number} most */
function meterCell(value, most) {
  return h(
    "span.topic-meter",
    { role: "gridcell", "aria-hidden": "true" },
    h("span.meter", h("i", { style: { width: `${Math.max(value ? 1 : 0, (100 * value) / most)}%` } })),
  );
}

/**
 * Return the areas of the topics in a place of this width, those of their parts within.
 * @param {Tree} tree
 * @param {number} width
 */
export const treeAreas = (tree, width) =>
  areasIn(tree, tree.children.get("") ?? [], { x: 0, y: 0, width, height: AREA_HEIGHT }, 0);

/**
 * @param {Tree} tree
 * @param {Topic[]} all
 * @param {import("../../treemap.js").Box} box
 * @param {number} level
 * @returns {HTMLElement[]}
 */
function areasIn(tree, all, box, level) {
  const topics = all.filter((topic) => topic.count > 0);
  const boxes = treemap(
    topics.map((topic) => topic.count),
    box,
  );
  return topics.flatMap((topic, index) => {
    const { x, y, width, height } = boxes[index];
    const area = h(
      "div",
      {
        class: `area level-${level}`,
        "data-topic": keyOf(topic),
        "aria-hidden": "true",
        title: `${nameOf(topic)}: ${count(topic.count)}`,
        "aria-selected": String(keyOf(topic) === tree.chosen),
        style: {
          "inset-inline-start": `${x}px`,
          top: `${y}px`,
          width: `${Math.max(1, width - 2)}px`,
          height: `${Math.max(1, height - 2)}px`,
        },
      },
      height >= NAMED_AREA && width >= 48
        ? h("span.area-name", { dir: "auto" }, nameOf(topic), " ", h("span.meta", count(topic.count)))
        : null,
    );
    const below = tree.children.get(keyOf(topic)) ?? [];
    const isDeep = level < 1 && below.length > 1 && width > 90 && height > 90;
    const inner = { x: x + 4, y: y + 26, width: width - 10, height: height - 32 };
    return isDeep ? [area, ...areasIn(tree, below, inner, level + 1)] : [area];
  });
}
