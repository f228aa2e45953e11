// How something grew, month by month.

import { count, month } from "./format.js";
import { h, s } from "./html.js";

const MONTHS = 36; // that are drawn, the last

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
    "div",
    { class: "month-bars" },
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
          s("title", {}, `${text(name)}: ${count(months[name] ?? 0)}`),
        );
      }),
    ),
    h(
      "div",
      { class: "row meta" },
      h("span", { class: "grow" }, text(shown[0]), earlier ? ` · ${count(earlier)} before` : ""),
      h("span", {}, text(shown[shown.length - 1])),
    ),
  );
}
