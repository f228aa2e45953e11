// The slider of days: the memory as it was.

import { ApiError, call } from "./api.js";
import { count, day, isoDay, month, startOfDay } from "./format.js";
import { fill, h, s } from "./html.js";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
const WEEKS_MAX = 260;

/** @param {import("./app.js").Page} page */
export function asOfSlider(page) {
  const picture = h("div.histogram");
  const range = h("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "As of" });
  const label = h("output", "now");
  const date = h("input.date", { type: "date", "aria-label": "As of this day" });
  const place = h(
    "div.as-of",
    h("span.label", "As of ", h("kbd", "t")),
    h("div.track", picture, range),
    h("div", h("b", label), date),
  );
  const today = startOfDay(Date.now());
  let first = today;
  let namespace = "";
  const at = () => startOfDay(first + Number(range.value) * DAY_MS + DAY_MS / 2);
  const say = () => {
    const isNow = Number(range.value) === Number(range.max);
    label.textContent = isNow ? "now" : day(at());
    range.setAttribute("aria-valuetext", isNow ? "now" : day(at()));
  };
  const choose = () => page.set({ as_of: Number(range.value) >= Number(range.max) ? null : isoDay(at()), id: null });
  range.addEventListener("input", say);
  range.addEventListener("change", choose);
  range.addEventListener("keydown", (event) => {
    if (event.key !== "PageUp" && event.key !== "PageDown") return;
    event.preventDefault();
    range.value = String(Number(range.value) + (event.key === "PageUp" ? 30 : -30));
    say();
    choose();
  });
  date.addEventListener("change", () => {
    if (date.value) page.set({ as_of: date.value === isoDay(today) ? null : date.value });
  });
  return {
    place,
    focus: () => range.focus(),
    /** @param {import("./app.js").Route} route */
    show: (route) => {
      const asOf = route.params.get("as_of");
      const set = () => {
        range.value = asOf ? String(Math.round((startOfDay(Date.parse(`${asOf}T12:00`)) - first) / DAY_MS)) : range.max;
        date.value = asOf ?? isoDay(today);
        say();
      };
      if (namespace === page.namespace) return set();
      namespace = page.namespace;
      void weeks(namespace).then((counts) => {
        place.hidden = counts.length === 0;
        if (!counts.length) return;
        first = startOfDay(counts[0][0]);
        range.max = String(Math.round((today - first) / DAY_MS));
        fill(picture, histogram(counts, first, today));
        set();
      });
      set();
    },
  };
}

/**
 * The memories of each week by the time when they were stored, the oldest first.
 * @param {string} namespace
 * @returns {Promise<[number, number][]>}
 */
async function weeks(namespace) {
  try {
    const since = Date.now() - WEEKS_MAX * WEEK_MS;
    const { buckets } = await call("GET /v1/timeline", { namespace, by: "stored", step: "week", since });
    return buckets.map((each) => /** @type {[number, number]} */ ([each.since, each.count])).slice(-WEEKS_MAX);
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  }
}

/** @param {[number, number][]} counts @param {number} first @param {number} last */
function histogram(counts, first, last) {
  const most = Math.max(1, ...counts.map(([, number]) => number));
  const span = Math.max(WEEK_MS, last - first);
  const total = counts.reduce((sum, [, number]) => sum + number, 0);
  const [busiest, number] = counts.reduce((best, each) => (each[1] > best[1] ? each : best));
  const bars = counts.map(([at, each]) =>
    s("rect", {
      x: (1000 * (at - first)) / span,
      width: Math.min(12, Math.max(1, (1000 * WEEK_MS * 0.8) / span)),
      y: 30 - (28 * each) / most,
      height: (28 * each) / most,
    }),
  );
  return [
    s(
      "svg",
      {
        viewBox: "0 0 1000 30",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${count(total)} memories a week; most in the week of ${day(busiest)}, ${count(number)}`,
      },
      bars,
    ),
    h("div.ends.meta", h("span", month(first)), h("span", "memories a week")),
  ];
}
