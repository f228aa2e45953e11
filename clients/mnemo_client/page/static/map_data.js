// Reads the map: the places of all memories, as lists in one order.

import { call } from "./api.js";

/**
 * @typedef {object} MapData
 * @property {string} namespace
 * @property {string} layout what is placed by the same layout stays where it is
 * @property {string[]} ids
 * @property {number[]} x
 * @property {number[]} y
 * @property {import("./map_colours.js").Known} known
 * @property {number} waiting memories that have no place yet
 * @property {number | null} share of the layout that is computed
 */

/**
 * @param {string} namespace
 * @param {AbortSignal} signal
 * @returns {Promise<MapData>}
 */
export async function readMap(namespace, signal) {
  /** @type {MapData} */
  const data = { namespace, layout: "", ids: [], x: [], y: [], known: { topic: [], layer: [], age: null, source: null, trust: null }, waiting: 0, share: null };
  let cursor = null;
  do {
    /** @type {any} */
    const part = await call(/** @type {any} */ ("GET /v1/map"), /** @type {any} */ ({ namespace, cursor }), { signal });
    data.layout = part.layout ?? "";
    data.waiting = part.waiting ?? 0;
    data.share = part.share ?? null;
    for (const [list, values] of /** @type {[any[], any[]][]} */ ([[data.ids, part.ids], [data.x, part.x], [data.y, part.y], [data.known.topic, part.topics], [data.known.layer, part.layers]])) {
      for (const value of values) list.push(value);
    }
    cursor = part.cursor;
  } while (cursor);
  return data;
}
