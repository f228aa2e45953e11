// The chains of facts around a subject, drawn from left to right.

import { table } from "./controls.js";
import { cut } from "./format.js";
import { h, s, shown } from "./html.js";

/** @typedef {import("../api_types").FactChainView} Chain */
/** @typedef {{name: string, column: number, row: number}} Place */

const [BOX_WIDTH, BOX_HEIGHT, COLUMN, ROW] = [132, 26, 212, 44];
const ROWS_MAX = 12; // of a column; the table has all
const COLUMNS_MAX = 5;
const NAME_CHARACTERS = 20;
const WORDS_CHARACTERS = 15;

/** @param {string} name */
const keyOf = (name) =>
  name
    .trim()
    .toLocaleLowerCase()
    .replace(/^(?:the|an?) /, "");

/**
 * Return each fact of the chains once, with the places of what it connects. Where a chain goes on with a fact about
 * something else that only has the name in it, that gets a place of its own, and a line without a fact leads to it.
 * @param {string} subject
 * @param {Chain[]} chains
 */
function layout(subject, chains) {
  /** @type {Map<string, Place>} */
  const places = new Map([[keyOf(subject), { name: subject, column: 0, row: 0 }]]);
  const heights = [1, ...Array(COLUMNS_MAX - 1).fill(0)];
  /** @type {Map<string, {link: import("../api_types").FactLink | null, from: Place, to: Place}>} */
  const links = new Map();
  let left = 0;
  /** @returns {Place | null} null: its column is full */
  const placed = (/** @type {string} */ name, /** @type {Place} */ before) => {
    const known = places.get(keyOf(name));
    if (known) return known;
    const column = Math.min(COLUMNS_MAX - 1, before.column + 1);
    if (heights[column] >= ROWS_MAX) return null;
    const place = { name, column, row: heights[column] };
    heights[column] += 1;
    places.set(keyOf(name), place);
    return place;
  };
  for (const chain of chains) {
    let here = /** @type {Place} */ (places.get(keyOf(subject)));
    for (const [at, link] of chain.facts.entries()) {
      const isForward = keyOf(chain.entities[at + 1]) === keyOf(link.object);
      const [near, far] = isForward ? [link.subject, link.object] : [link.object, link.subject];
      const own = placed(near, here);
      const end = own && placed(far, own);
      if (!own || !end) {
        left += 1;
        break;
      }
      if (own !== here) links.set(`${keyOf(here.name)}\n${keyOf(near)}`, { link: null, from: here, to: own });
      const [from, to] = isForward ? [own, end] : [end, own];
      if (own !== end && !links.has(link.id)) links.set(link.id, { link, from, to });
      here = end;
    }
  }
  const most = Math.max(...heights);
  for (const place of places.values()) place.row += (most - heights[place.column]) / 2;
  return {
    places: [...places.values()],
    links: [...links.values()],
    rows: most,
    columns: heights.filter(Boolean).length,
    left,
  };
}

/**
 * Return the picture of the chains, and how many of them it leaves out.
 * @param {string} subject
 * @param {Chain[]} chains
 * @param {Set<string>} disputed ids of facts that contradict each other
 * @param {(name: string) => void} choose
 */
export function chainPicture(subject, chains, disputed, choose) {
  const { places, links, rows, columns, left } = layout(subject, chains);
  const [width, height] = [(columns - 1) * COLUMN + BOX_WIDTH + 2, rows * ROW];
  const x = (/** @type {Place} */ place) => place.column * COLUMN + 1;
  const y = (/** @type {Place} */ place) => place.row * ROW + ROW / 2;
  const lines = links.map(({ link, from, to }) => {
    const isDisputed = link !== null && disputed.has(link.id);
    // From the side of a box that faces the other; within a column both at their ends.
    const isSame = from.column === to.column;
    const isRight = from.column < to.column || isSame;
    const [x1, x2] = [x(from) + (isRight ? BOX_WIDTH : 0), x(to) + (isRight && !isSame ? 0 : BOX_WIDTH)];
    const bend = isSame ? 40 : (x2 - x1) / 2;
    const tip = x2 + (isSame ? 7 : isRight ? -7 : 7);
    const path = `M${x1} ${y(from)}C${x1 + bend} ${y(from)} ${isSame ? x2 + bend : x2 - bend} ${y(to)} ${tip} ${y(to)}`;
    const arrow = isRight && !isSame ? `M${x2} ${y(to)}l-8 -4v8Z` : `M${x2} ${y(to)}l8 -4v8Z`;
    const far = isRight ? 0.6 : 0.4; // of the way: near the end that fewer lines share
    const middle = isSame ? x1 + 30 : x1 + (x2 - x1) * far;
    return {
      kind: link === null ? "link named" : isDisputed ? "link disputed" : "link",
      path,
      arrow: link && arrow,
      at: [middle, y(from) + (y(to) - y(from)) * (isRight ? 0.75 : 0.25) + (y(from) === y(to) ? 0 : 2)],
      words: link?.predicate ?? "",
    };
  });
  return {
    left,
    picture: s(
      "svg.chains",
      {
        viewBox: `0 0 ${width} ${height}`,
        style: { "max-width": `${width}px` },
        role: "img",
        "aria-label": `${links.filter((each) => each.link).length} facts connect ${subject} with ${places.length - 1} others`,
      },
      lines.map(({ kind, path, arrow }) => [
        s("path", { d: path, class: kind }),
        arrow ? s("path.arrow", { d: arrow }) : null,
      ]),
      lines.map(({ at, words }) =>
        s("text.link-words", { x: at[0], y: at[1] + 3 }, shown(cut(words, WORDS_CHARACTERS))),
      ),
      places.map((place, index) =>
        s(
          "g",
          { class: index ? "entity" : "entity own", on: { click: () => choose(place.name) } },
          s("title", place.name),
          s("rect", {
            x: x(place),
            y: y(place) - BOX_HEIGHT / 2,
            width: BOX_WIDTH,
            height: BOX_HEIGHT,
            rx: BOX_HEIGHT / 2,
          }),
          s("text", { x: x(place) + BOX_WIDTH / 2, y: y(place) + 4 }, shown(cut(place.name, NAME_CHARACTERS))),
        ),
      ),
    ),
  };
}

/**
 * Return the same as a table: every chain a line of its facts.
 * @param {Chain[]} chains
 * @param {(name: string) => void} choose
 */
export function chainTable(chains, choose) {
  const facts = new Map(chains.flatMap((chain) => chain.facts.map((fact) => [fact.id, fact])));
  const name = (/** @type {string} */ text) =>
    h("button.plain", { dir: "auto", on: { click: () => choose(text) } }, text);
  return table(
    ["subject", "says", ""],
    [...facts.values()].map((fact) =>
      h("tr", h("td", name(fact.subject)), h("td", { dir: "auto" }, fact.predicate), h("td", name(fact.object))),
    ),
  );
}
