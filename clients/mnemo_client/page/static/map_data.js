// Reads the map: the places of all memories, as lists in one order.

import { call } from "./api.js";

/** @typedef {import("../api_types").MapAnswer} MapAnswer */

/**
 * @typedef {object} MapData
 * @property {string} namespace
 * @property {string} layout what is placed by the same layout stays where it is
 * @property {string[]} ids
 * @property {number[]} x
 * @property {number[]} y
 * @property {import("./map_colours.js").Known} known
 * @property {MapAnswer["state"]} state
 * @property {number | null} share of the layout that is computed
 * @property {string | null} reason why there is no map
 */

const POINTS = 20_000; // of a page

/** @param {string} namespace @param {AbortSignal} signal @returns {Promise<MapData>} */
export async function readMap(namespace, signal) {
  /** @type {MapAnswer[]} */
  const pages = [];
  let cursor = null;
  do {
    /** @type {MapAnswer} */
    const page = await call("GET /v1/map", { namespace, limit: POINTS, cursor }, { signal });
    if (pages.length && page.layout !== pages[0].layout) pages.length = 0; // drawn anew meanwhile: what came before lies elsewhere
    pages.push(page);
    cursor = page.cursor;
  } while (cursor);
  const last = pages[pages.length - 1];
  return {
    namespace,
    layout: last.layout ?? "",
    state: last.state,
    share: last.share,
    reason: last.reason,
    ids: pages.flatMap((page) => page.ids),
    x: pages.flatMap((page) => page.x),
    y: pages.flatMap((page) => page.y),
    known: {
      topic: pages.flatMap((page) => page.topic.map((at) => page.topics[at] ?? null)),
      layer: named(pages, "layer", "layers"),
      source: named(pages, "source", "sources"),
      trust: named(pages, "trust", "trusts"),
      age: pages.flatMap((page) => page.event_at),
    },
  };
}

/**
 * @param {MapAnswer[]} pages
 * @param {"layer" | "source" | "trust"} field
 * @param {"layers" | "sources" | "trusts"} names
 */
function named(pages, field, names) {
  return pages.flatMap((page) => page[field].map((at) => page[names][at] ?? ""));
}
