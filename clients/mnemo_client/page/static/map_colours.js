// What colours the points of the map: topic, layer, age, source or trust.

import { TRUST } from "./format.js";

/** @typedef {import("../api_types").TopicView} Topic */

/**
 * What is known of the points, each a list in their order.
 * @typedef {object} Known
 * @property {(string | null)[]} topic
 * @property {string[]} layer
 * @property {number[]} age the time when it happened, in ms
 * @property {string[]} source
 * @property {string[]} trust
 */
/** @typedef {keyof Known} By */
/** @typedef {{key: string, name: string, token: string, count: number}} Category what a colour stands for */
/** @typedef {{categories: Category[], kindOf: Uint8Array, ownOf: Uint16Array}} Colouring kindOf: the colour of each point; ownOf: its category */

const COLOURS = 8; // the largest categories have one of their own, the rest shares one
const DAY_MS = 86_400_000;
/** @type {[string, number][]} name and most days, the oldest last */
const AGES = [
  ["this week", 7],
  ["this month", 31],
  ["last three months", 92],
  ["this year", 366],
  ["older", Infinity],
];
/** @type {Record<string, string>} */
const LAYER_NAMES = { buffer: "buffer", working: "working", core: "core", archive: "archive", archived: "archive" };

/**
 * @param {Known} known
 * @param {By} by
 * @param {Map<string, {root: string, name: string}>} roots the highest topic above each, and its name
 * @returns {Colouring}
 */
export function colouring(known, by, roots) {
  if (by === "age") return byAge(known.age);
  const keys = by === "topic" ? known.topic.map((id) => (id === null ? "" : (roots.get(id)?.root ?? ""))) : known[by];
  const name = (/** @type {string} */ key) => {
    if (by === "topic") return key ? (roots.get(key)?.name ?? key) : "no topic";
    if (by === "trust") return TRUST[key]?.[1] ?? key;
    return by === "layer" ? (LAYER_NAMES[key] ?? key) : key || "others";
  };
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  const sorted = [...counts].sort((one, other) => Number(one[0] === "") - Number(other[0] === "") || other[1] - one[1]);
  const categories = sorted.map(([key, count], index) => ({
    key,
    name: name(key),
    count,
    token: key && index < COLOURS ? `--t${index + 1}` : "--t0",
  }));
  const at = new Map(categories.map((each, index) => [each.key, index]));
  const ownOf = Uint16Array.from(keys, (key) => at.get(key) ?? 0);
  return {
    categories,
    ownOf,
    kindOf: Uint8Array.from(ownOf, (own) => (categories[own].token === "--t0" ? 0 : own + 1)),
  };
}

/** @param {number[]} times @returns {Colouring} */
function byAge(times) {
  const now = Date.now();
  const ownOf = Uint16Array.from(times, (time) => AGES.findIndex(([, days]) => now - time < days * DAY_MS));
  const categories = AGES.map(([name], index) => ({
    key: name,
    name,
    token: index < AGES.length - 1 ? `--r${AGES.length - 1 - index}` : "--t0",
    count: 0,
  }));
  for (const own of ownOf) categories[own].count += 1;
  return { categories, ownOf, kindOf: Uint8Array.from(ownOf, (own) => (own === AGES.length - 1 ? 0 : own + 1)) };
}

/**
 * Return the tokens by kind, kind 0 first.
 * @param {Colouring} colours
 */
export function tokensOf({ categories, ownOf, kindOf }) {
  const tokens = ["--t0"];
  for (let at = 0; at < ownOf.length; at += 1) tokens[kindOf[at]] ??= categories[ownOf[at]].token;
  return Array.from(tokens, (token) => token ?? "--t0");
}

/**
 * Return for each topic the one above all, with its name, and the one of the second level.
 * @param {Topic[]} topics
 */
export function rootsOf(topics) {
  const byId = new Map(topics.map((topic) => [topic.id, topic]));
  /** @type {Map<string, {root: string, name: string, path: Topic[]}>} */
  const roots = new Map();
  for (const topic of topics) {
    const path = [topic];
    for (
      let above = topic.parent ? byId.get(topic.parent) : undefined;
      above && path.length < 8;
      above = above.parent ? byId.get(above.parent) : undefined
    )
      path.unshift(above);
    roots.set(topic.id, { root: path[0].id, name: path[0].name, path });
  }
  return roots;
}
