// A graph as a picture: circles by size, lines by weight, names where there is room.

import { table } from "./controls.js";
import { count, cut } from "./format.js";
import { fill, h, s, shown } from "./html.js";

/** @typedef {{id: string, name: string, size: number}} Node */
/** @typedef {{from: string, to: string, weight: number}} Edge */

const NODES_MAX = 300; // beyond it those with most edges are shown
const [SMALLEST, LARGEST] = [6, 22]; // radius
const NAME_CHARACTERS = 24;
const NAME_HEIGHT = 16;
const NAME_WIDTH = 164; // of the longest
const CACHED_MAX = 8;

/** @type {Map<string, Float32Array>} by what is drawn */
const cache = new Map();
/** @type {Worker | null} */
let worker = null;

/**
 * Return the places of nodes, computed beside the page.
 * @param {number[]} sizes
 * @param {[number, number, number][]} edges
 * @returns {Promise<Float32Array>}
 */
function placesOf(sizes, edges) {
  const key = JSON.stringify([sizes, edges]);
  const known = cache.get(key);
  if (known) return Promise.resolve(known);
  worker ??= new Worker(new URL("./graph_worker.js", import.meta.url), { type: "module" });
  const used = worker;
  return new Promise((resolve, reject) => {
    const heard = (/** @type {MessageEvent} */ event) => {
      if (event.data.key !== key) return;
      used.removeEventListener("message", heard);
      if (cache.size >= CACHED_MAX) cache.delete([...cache.keys()][0]);
      cache.set(key, event.data.places);
      resolve(event.data.places);
    };
    used.addEventListener("message", heard);
    used.addEventListener("error", () => reject(new Error("the picture of the graph could not be drawn")), {
      once: true,
    });
    used.postMessage({ sizes, edges, key });
  });
}

/**
 * Draw a graph into a place. Returns how many nodes it leaves out.
 * @param {HTMLElement} place
 * @param {Node[]} nodes
 * @param {Edge[]} edges
 * @param {{label: string, selected?: string, choose: (id: string) => void}} options
 */
export async function drawGraph(place, nodes, edges, { label, selected, choose }) {
  /** @type {Map<string, number>} */
  const degrees = new Map();
  for (const edge of edges) for (const id of [edge.from, edge.to]) degrees.set(id, (degrees.get(id) ?? 0) + 1);
  const drawn = [...nodes]
    .sort((one, other) => (degrees.get(other.id) ?? 0) - (degrees.get(one.id) ?? 0) || other.size - one.size)
    .slice(0, NODES_MAX);
  const at = new Map(drawn.map((node, index) => [node.id, index]));
  const most = Math.max(1, ...drawn.map((node) => node.size));
  const heaviest = Math.max(1, ...edges.map((edge) => edge.weight));
  const sizes = drawn.map((node) => Math.round(SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(node.size / most)));
  const lines = edges.flatMap((edge) => {
    const [from, to] = [at.get(edge.from), at.get(edge.to)];
    return from === undefined || to === undefined
      ? []
      : [/** @type {[number, number, number]} */ ([from, to, edge.weight / heaviest])];
  });
  const places = await placesOf(sizes, lines);
  const all = drawn.map((_, node) => node);
  const [x, width] = fitted(
    all.map((node) => places[2 * node]),
    Math.max(240, place.clientWidth || 460),
    NAME_WIDTH / 2,
  );
  const [y, height] = fitted(
    all.map((node) => places[2 * node + 1]),
    Math.min(420, 120 + 24 * drawn.length),
    LARGEST + 6,
  );
  const names = namesWithRoom(all, drawn, sizes, x, y, selected);
  fill(
    place,
    s(
      "svg.graph",
      {
        viewBox: `0 0 ${width} ${height + NAME_HEIGHT}`,
        width,
        height: height + NAME_HEIGHT,
        role: "img",
        "aria-label": label,
      },
      lines.map(([from, to, strength]) =>
        s("line", {
          x1: x(from),
          y1: y(from),
          x2: x(to),
          y2: y(to),
          "stroke-width": (1 + 6 * strength).toFixed(1),
          class: drawn[from].id === selected || drawn[to].id === selected ? "own" : "",
        }),
      ),
      all.map((node) =>
        s(
          "circle",
          {
            cx: x(node),
            cy: y(node),
            r: sizes[node],
            class: drawn[node].id === selected ? "own" : "",
            on: { click: () => choose(drawn[node].id) },
          },
          s("title", `${drawn[node].name}: ${count(drawn[node].size)}`),
        ),
      ),
      names.map((node) =>
        s(
          "text",
          { x: x(node), y: y(node) + sizes[node] + 13 },
          shown(cut(drawn[node].name.replace(/\s+/g, " "), NAME_CHARACTERS)),
        ),
      ),
    ),
  );
  return nodes.length - drawn.length;
}

/**
 * Return how a value is placed on an axis of a length in pixels, with a margin at both ends.
 * @param {number[]} values
 * @param {number} length
 * @param {number} margin
 * @returns {[(node: number) => number, number]}
 */
function fitted(values, length, margin) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (most - least < 1) return [() => length / 2, length];
  const scale = (length - 2 * margin) / (most - least);
  return [(node) => margin + (values[node] - least) * scale, length];
}

/**
 * Return the nodes whose names have room: the chosen and the larger win, and no name lies over another.
 * @param {number[]} all
 * @param {Node[]} nodes
 * @param {number[]} sizes
 * @param {(node: number) => number} x
 * @param {(node: number) => number} y
 * @param {string} [selected]
 */
function namesWithRoom(all, nodes, sizes, x, y, selected) {
  /** @type {[number, number, number, number][]} */
  const taken = [];
  const order = [...all].sort(
    (one, other) =>
      Number(nodes[other].id === selected) - Number(nodes[one].id === selected) || sizes[other] - sizes[one],
  );
  return order.filter((node) => {
    const half = Math.min(NAME_CHARACTERS, nodes[node].name.length) * (NAME_WIDTH / NAME_CHARACTERS / 2);
    const top = y(node) + sizes[node] + 2;
    const box = /** @type {[number, number, number, number]} */ ([
      x(node) - half,
      top,
      x(node) + half,
      top + NAME_HEIGHT,
    ]);
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]))
      return false;
    taken.push(box);
    return true;
  });
}

/**
 * Return the same as a table: each node, its size, and what it is connected with.
 * @param {Node[]} nodes
 * @param {Edge[]} edges
 * @param {string[]} heads of the columns
 */
export function graphTable(nodes, edges, heads) {
  const names = new Map(nodes.map((node) => [node.id, node.name]));
  const rows = nodes.slice(0, NODES_MAX).map((node) => {
    const own = edges
      .filter((edge) => edge.from === node.id || edge.to === node.id)
      .sort((one, other) => other.weight - one.weight)
      .slice(0, 5);
    return h(
      "tr",
      h("td", { dir: "auto" }, node.name),
      h("td.number", { "data-label": heads[1] }, count(node.size)),
      h(
        "td",
        { "data-label": heads[2] },
        own
          .map((edge) => `${names.get(edge.from === node.id ? edge.to : edge.from) ?? "?"} (${count(edge.weight)})`)
          .join(", ") || "nothing",
      ),
    );
  });
  return table([heads[0], `#${heads[1]}`, heads[2]], rows);
}
