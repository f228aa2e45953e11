// Charts of values by day, each with its figure and as a table; bars by month.

import { table } from "./controls.js";
import { button, fill, h, s } from "./html.js";
import { count, day, month } from "./format.js";

/**
 * A line of a chart: its name, its values, null where there is none.
 * @typedef {{name: string, values: (number | null)[]}} Line
 */

/**
 * What a chart shows. `at`: the times of the values in ms, rising; `say`: a value in words; `events`: what happened,
 * written at its place. The second line is dashed.
 * @typedef {object} ChartData
 * @property {string} title
 * @property {string} figure
 * @property {string} about
 * @property {number[]} at
 * @property {Line[]} lines
 * @property {(value: number) => string} say
 * @property {boolean} [isFilled]
 * @property {{at: number, words: string}[]} [events]
 */

const MONTHS = 36; // that are drawn, the last
const GRID = [0, 0.5, 1]; // shares of the highest label
const WIDTH = 1000;
const HEIGHT = 100;

/**
 * Return a chart: the value now as a figure, and below it the line of values from zero up.
 * @param {ChartData} data
 */
export function lineChart(data) {
  const place = h("figure.chart");
  const table = h("div");
  const hasLine = data.lines.some((line) => line.values.filter((value) => value !== null).length > 1);
  const asTable = h(
    "button.plain",
    {
      "aria-expanded": "false",
      on: {
        click: () => {
          const isOpen = table.hasChildNodes();
          fill(table, isOpen ? null : valueTable(data));
          asTable.setAttribute("aria-expanded", String(!isOpen));
        },
      },
    },
    "as a table",
  );
  fill(
    place,
    h("figcaption.row", h("h2.grow", data.title), data.at.length ? asTable : null),
    h("p", h("span.figure", data.figure), " ", h("span.meta", data.about)),
    hasLine ? plot(data) : h("p.meta.plot-empty", "A line is drawn from the second day on."),
    table,
  );
  return place;
}

/** @param {ChartData} data */
function plot(data) {
  const highest = top(Math.max(1e-9, ...data.lines.flatMap((line) => line.values.map((value) => value ?? 0))));
  const [first, last] = [data.at[0], data.at[data.at.length - 1]];
  const x = (/** @type {number} */ at) => (WIDTH * (at - first)) / Math.max(1, last - first);
  const y = (/** @type {number} */ value) => HEIGHT - (HEIGHT * value) / highest;
  const paths = data.lines.map((line) => {
    let isDrawing = false;
    return line.values
      .map((value, index) => {
        if (value === null) {
          isDrawing = false;
          return "";
        }
        const step = `${isDrawing ? "L" : "M"}${x(data.at[index]).toFixed(1)} ${y(value).toFixed(2)}`;
        isDrawing = true;
        return step;
      })
      .join("");
  });
  const newest = (/** @type {Line} */ line) => line.values.findLast((value) => value !== null) ?? 0;
  return h(
    "div.plot",
    h(
      "div.canvas",
      s(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": sentence(data) },
        GRID.map((share) => s("line.grid", { x1: 0, x2: WIDTH, y1: HEIGHT * share, y2: HEIGHT * share })),
        data.isFilled ? s("path.area", { d: `${paths[0]}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z` }) : null,
        paths.map((d, index) => s("path", { class: index ? "line second" : "line", d })),
      ),
      GRID.map((share) =>
        h("span.y.meta", { style: { top: `${100 * share}%` } }, share === 1 ? "0" : data.say(highest * (1 - share))),
      ),
      data.lines.length > 1
        ? data.lines.map((line, index) =>
            h(
              "span",
              { class: `on-line meta ${index ? "" : "first"}`, style: { top: `${y(newest(line))}%` } },
              line.name,
            ),
          )
        : null,
      (data.events ?? [])
        .filter((each) => each.at >= first && each.at <= last)
        .map((each) =>
          h("span.event.meta", { style: { "inset-inline-start": `${x(each.at) / (WIDTH / 100)}%` } }, each.words),
        ),
    ),
    h(
      "div.x.meta",
      h("span", endLabel(first, last)),
      last - first > 60 * 86_400_000 ? h("span", month((first + last) / 2)) : null,
      h("span", "now"),
    ),
  );
}

/** @param {number} first @param {number} last */
const endLabel = (first, last) => (last - first > 60 * 86_400_000 ? month(first) : day(first));

/** @param {ChartData} data */
function sentence(data) {
  const parts = data.lines.map((line) => {
    const values = /** @type {number[]} */ (line.values.filter((value) => value !== null));
    return `${line.name}: from ${data.say(values[0] ?? 0)} to ${data.say(values[values.length - 1] ?? 0)}, at most ${data.say(Math.max(0, ...values))}`;
  });
  return `${data.title} on ${data.at.length} days since ${day(data.at[0])}. ${parts.join(". ")}`;
}

/**
 * The end of the axis: the next of 1, 2, 4, 5 times a power of ten.
 * @param {number} value
 */
function top(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

/** @param {ChartData} data */
function valueTable(data) {
  const rows = data.at.map((at, index) =>
    h(
      "tr",
      h("th", { scope: "row" }, day(at)),
      data.lines.map((line) => {
        const value = line.values[index];
        return h("td.number", { "data-label": line.name }, value === null ? "–" : data.say(value));
      }),
    ),
  );
  const values = table(["day", ...data.lines.map((line) => `#${line.name}`)], rows.reverse());
  values.prepend(h("caption.hidden", data.title));
  return h("div.scroll", values);
}

/**
 * Return a bar of a share, which stands beside its number.
 * @param {number} share from 0 to 1
 */
export function bar(share) {
  return h(
    "span.meter",
    { "aria-hidden": "true" },
    h("i", { style: { width: `${Math.round(100 * Math.min(1, Math.max(0, share)))}%` } }),
  );
}

/**
 * Return a button that shows more of a list in its place, and less again.
 * @param {string} words
 * @param {(isAll: boolean) => void} draw
 * @param {boolean} isAll
 */
export const moreButton = (words, draw, isAll) =>
  button(isAll ? "Fewer" : words, "", () => draw(!isAll), { class: "plain", "aria-expanded": String(isAll) });

/**
 * Return how many members each month has, as bars from the first to the present one.
 * @param {Record<string, number>} months by year and month, such as 2026-05
 */
export function monthBars(months) {
  const first = Object.keys(months).sort()[0];
  if (!first) return null;
  const names = [];
  const now = new Date();
  const at = new Date(Number(first.slice(0, 4)), Number(first.slice(5)) - 1, 1);
  for (; at <= now; at.setMonth(at.getMonth() + 1))
    names.push(`${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}`);
  const shown = names.slice(-MONTHS);
  const earlier = names.slice(0, -MONTHS).reduce((sum, name) => sum + (months[name] ?? 0), 0);
  const most = Math.max(1, ...shown.map((name) => months[name] ?? 0));
  const full = shown.reduce((best, name) => ((months[name] ?? 0) > (months[best] ?? 0) ? name : best), shown[0]);
  const text = (/** @type {string} */ name) =>
    month(new Date(Number(name.slice(0, 4)), Number(name.slice(5)) - 1, 1).getTime());
  return h(
    "div.month-bars",
    s(
      "svg",
      {
        viewBox: `0 0 ${shown.length * 10} 44`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `members by month; most in ${text(full)}, ${count(months[full] ?? 0)}`,
      },
      shown.map((name, index) => {
        const height = months[name] ? Math.max(2, (42 * months[name]) / most) : 1;
        return s(
          "rect",
          { x: index * 10 + 0.75, width: 8.5, y: 44 - height, height, class: months[name] ? "" : "none" },
          s("title", `${text(name)}: ${count(months[name] ?? 0)}`),
        );
      }),
    ),
    h(
      "div.row.meta",
      h("span.grow", text(shown[0]), earlier ? ` · ${count(earlier)} before` : ""),
      h("span", text(shown[shown.length - 1])),
    ),
  );
}
