// What happened when: a year as a calendar of days, then the day in order of time.

import { ApiError, call } from "../api.js";
import { barRows, segments, table, withTable } from "../controls.js";
import { groupRow, grouped, hoursPicture, inTime, itemRow, sourcesOf } from "../day_rows.js";
import {
  count,
  counted,
  day as dayText,
  duration,
  isoDay,
  memories as memoriesText,
  month,
  startOfDay,
} from "../format.js";
import { button, fill, h, memoryText, plainButton } from "../html.js";
import { memoryList } from "../memory.js";
import { emptyState, firstSteps, ifKnown, News, readInto, stopReading } from "../part.js";

/** @typedef {import("../../api_types").TimelineAnswer} TimelineAnswer */
/** @typedef {"event" | "stored" | "changed"} By */
/** @typedef {import("../day_rows.js").Item} Item */

const DAY_MS = 86_400_000;
const SEARCH_DAYS = 390; // looked through at a time for the next day with something
const SHOWN_MAX = 500;
const OTHER_YEARS = 5;
const READ_MS = 80; // after the last arrow, until the day is read
/** @type {number[][]} the least of each step of colour */
const STEPS = [
  [1, 2, 3, 5],
  [1, 3, 6, 12],
  [1, 5, 12, 30],
  [1, 10, 30, 80],
  [1, 30, 100, 300],
  [1, 100, 300, 1000],
  [1, 300, 1000, 3000],
];
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const LONG_DAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const DAY_AND_MONTH = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long" });
/** @type {Record<By, string>} */
const EMPTY_WORDS = { event: "happened", stored: "was stored", changed: "was changed" };

/** @type {import("../app.js").View} */
export default { title: "Timeline", mount: (place, page) => new Timeline(place, page) };

class Timeline {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    this.year = 0;
    this.day = startOfDay(Date.now());
    /** @type {By} */
    this.by = "event";
    /** @type {Map<string, number>} */
    this.counts = new Map();
    /** @type {TimelineAnswer | null} */
    this.answer = null;
    this.shownYear = "";
    this.shownDay = "";
    this.news = new News(() => this.refresh());
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.yearPlace = h("span.year");
    this.choice = segments(
      "By which time",
      [
        ["event", "when it happened"],
        ["stored", "when it was stored"],
        ["changed", "what changed"],
      ],
      (value) => page.set({ by: value === "event" ? null : value, id: null }),
    );
    this.calendar = h("div.calendar", { role: "grid" });
    this.scroller = h("div.calendar-scroll", this.calendar);
    this.table = withTable(this.scroller, () => this.drawTable());
    this.foot = h("div.calendar-foot");
    this.head = h("div.view-head.day-head");
    this.hits = memoryList(page, "Memories of the day");
    this.side = h("aside.day-side", { "aria-label": "About this day" });
    this.body = h("div.split.day", h("div", this.head, this.hits.list), this.side);
    this.rest = h("div");
    fill(
      place,
      h("header", h("h1", "Timeline"), this.yearPlace, h("span.grow"), this.choice.place),
      this.scroller,
      this.table.place,
      this.foot,
      this.rest,
      this.body,
    );
    this.calendar.addEventListener("click", (event) => {
      const cell = /** @type {HTMLElement} */ (event.target).closest("[data-day]");
      if (cell) this.choose(dayOf(/** @type {HTMLElement} */ (cell).dataset.day ?? ""), true);
    });
    this.hits.list.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest(".group");
      if (row) this.toggle(/** @type {HTMLElement} */ (row));
    });
    const isMirrored = getComputedStyle(place).direction === "rtl";
    /** @type {Record<string, () => void>} */
    this.keys = {
      ArrowLeft: () => this.move(isMirrored ? 1 : -1),
      ArrowRight: () => this.move(isMirrored ? -1 : 1),
      ArrowUp: () => this.moveWeek(-1),
      ArrowDown: () => this.moveWeek(1),
      "[": () => void this.moveToFull(-1),
      "]": () => void this.moveToFull(1),
      ".": () => this.refresh(),
      " ": () => this.hits.check(),
    };
  }

  /** @param {import("../app.js").Route} route */
  show(route) {
    const asked = route.params.get("day");
    this.day = dayOf(asked ?? "") || startOfDay(Date.now());
    const by = route.params.get("by");
    this.by = by === "stored" || by === "changed" ? by : "event";
    this.year = new Date(this.day).getFullYear();
    this.choice.show(this.by);
    const key = [this.page.namespace, this.by].join();
    if (this.shownYear === `${key},${this.year}`) this.markDay();
    else void this.readYear(`${key},${this.year}`);
    if (this.shownDay === `${key},${this.day}`) return;
    this.shownDay = `${key},${this.day}`;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.readDay(), READ_MS);
  }

  current() {
    return this.hits.current();
  }
  /** @param {number} delta */
  step(delta) {
    this.hits.step(delta);
  }

  open() {
    const row = /** @type {HTMLElement | null} */ (this.hits.list.querySelector("[aria-selected=true]"));
    if (!this.hits.list.contains(document.activeElement)) {
      this.hits.list.focus();
      if (!row) this.hits.step(1);
    } else if (row?.classList.contains("group")) this.toggle(row);
    else this.hits.open();
  }

  refresh() {
    this.news.clear();
    void this.readYear(this.shownYear);
    void this.readDay();
  }

  leave() {
    clearTimeout(this.timer);
    stopReading(this.rest);
    stopReading(this.hits.list);
  }

  back() {
    if (!this.hits.list.contains(document.activeElement)) return false;
    this.focusDay();
    return true;
  }

  /** @param {string} name */
  heard(name) {
    if (name === "change") this.news.add(1);
  }

  // Moving

  /** @param {number} day @param {boolean} [hasFocus] */
  choose(day, hasFocus = false) {
    this.page.set({ day: day === startOfDay(Date.now()) ? null : isoDay(day), id: null });
    if (hasFocus) this.focusDay();
  }

  /** @param {number} days */
  move(days) {
    const next = plusDays(this.day, days);
    if (next > startOfDay(Date.now())) return;
    this.choose(next, !this.hits.list.contains(document.activeElement));
  }

  /** @param {number} weeks */
  moveWeek(weeks) {
    if (this.hits.list.contains(document.activeElement)) this.hits.step(weeks);
    else this.move(7 * weeks);
  }

  focusDay() {
    /** @type {HTMLElement | null} */ (this.calendar.querySelector("[tabindex='0']"))?.focus({ preventScroll: true });
  }

  /**
   * Go to the next day that has something, before or after.
   * @param {-1 | 1} direction
   */
  async moveToFull(direction) {
    try {
      const day = await this.nextFull(direction);
      if (day) this.choose(day);
      else this.page.toast(direction < 0 ? "Nothing is before this day" : "Nothing is after this day");
    } catch (error) {
      this.page.fail(error);
    }
  }

  /** @param {-1 | 1} direction */
  async nextFull(direction) {
    const inYear = [...this.counts.keys()]
      .map(dayOf)
      .filter((day) => (day - this.day) * direction > 0)
      .sort((one, other) => (one - other) * direction);
    if (inYear.length) return inYear[0];
    const [first, last] = [this.answer?.first ?? Infinity, this.answer?.last ?? -Infinity];
    let at = direction < 0 ? new Date(this.year, 0, 1).getTime() : new Date(this.year + 1, 0, 1).getTime();
    while (direction < 0 ? at > first : at <= last) {
      const end = plusDays(at, direction * SEARCH_DAYS);
      const { buckets } = await this.count(Math.min(at, end), Math.max(at, end));
      if (buckets.length) return startOfDay((direction < 0 ? buckets[buckets.length - 1] : buckets[0]).since);
      at = end;
    }
    return 0;
  }

  // The year

  /**
   * @param {number} since
   * @param {number} until
   * @param {{step?: "day" | "hour", signal?: AbortSignal}} [options]
   */
  count(since, until, { step = "day", signal } = {}) {
    return call("GET /v1/timeline", { namespace: this.page.namespace, by: this.by, step, since, until }, { signal });
  }

  /** @param {string} shown */
  async readYear(shown) {
    this.shownYear = shown;
    const year = this.year;
    const [since, until] = [new Date(year, 0, 1).getTime(), new Date(year + 1, 0, 1).getTime()];
    this.drawYearChoice();
    await readInto(
      this.page,
      this.rest,
      (signal) => this.count(since, until, { signal }),
      (answer) => {
        this.answer = answer;
        this.counts = new Map(answer.buckets.map((each) => [isoDay(each.since), each.count]));
        this.drawYearChoice();
        this.drawCalendar();
        this.table.draw();
        return answer.buckets.length ? null : this.emptyYear(answer);
      },
      `counting the memories of ${year}`,
    );
  }

  drawYearChoice() {
    const now = new Date().getFullYear();
    const first = this.answer?.first ? new Date(this.answer.first).getFullYear() : this.year;
    const to = (/** @type {number} */ year) => () => {
      const date = new Date(this.day);
      this.choose(Math.min(startOfDay(Date.now()), new Date(year, date.getMonth(), date.getDate()).getTime()));
    };
    fill(
      this.yearPlace,
      button("‹", "", to(this.year - 1), {
        class: "plain",
        "aria-label": "The year before",
        disabled: this.year <= first,
      }),
      h("b", String(this.year)),
      button("›", "", to(this.year + 1), {
        class: "plain",
        "aria-label": "The year after",
        disabled: this.year >= now,
      }),
    );
  }

  drawCalendar() {
    const { year, counts } = this;
    const today = isoDay(Date.now());
    const limits = limitsFor([...counts.values()]);
    const start = new Date(year, 0, 1);
    const offset = (start.getDay() + 6) % 7;
    /** @type {HTMLElement[][]} */
    const rows = WEEKDAYS.map((name, index) => [
      h(
        "span.weekday",
        { role: "rowheader", style: { "grid-row": index + 2 } },
        h("span", { class: index % 2 ? "hidden" : "" }, name),
      ),
    ]);
    const months = [];
    for (let number = 0; number < 366; number += 1) {
      const date = new Date(year, 0, 1 + number);
      if (date.getFullYear() !== year) break;
      const [column, row] = [2 + Math.floor((number + offset) / 7), (number + offset) % 7];
      const iso = isoDay(date.getTime());
      const each = counts.get(iso) ?? 0;
      const of = date.getDate();
      if (of === 1)
        months.push(h("span.month", { style: { "grid-column": column + (row ? 1 : 0) } }, MONTHS[date.getMonth()]));
      const level = limits.filter((least) => each >= least).length;
      const isFuture = iso > today && !each;
      rows[row].push(
        h("span", {
          role: "gridcell",
          "data-day": isFuture ? null : iso,
          tabindex: -1,
          "aria-disabled": isFuture ? "true" : null,
          "aria-label": `${LONG_DAY.format(date)}: ${each ? memoriesText(each) : isFuture ? "to come" : "none"}`,
          title: isFuture ? null : `${DAY_AND_MONTH.format(date)}: ${each ? count(each) : "none"}`,
          class: [
            isFuture ? "future" : `r${level}`,
            iso === today ? "today" : "",
            of <= 7 && date.getMonth() ? "month-before" : "",
            of === 1 && row && date.getMonth() ? "month-above" : "",
          ].join(" "),
          style: { "grid-row": row + 2, "grid-column": column },
        }),
      );
    }
    fill(
      this.calendar,
      h("div.months", { "aria-hidden": "true" }, months),
      rows.map((cells) => h("div.week-row", { role: "row" }, cells)),
    );
    this.drawFoot(limits);
    this.markDay();
    const isNarrow = this.scroller.scrollWidth > this.scroller.clientWidth;
    if (isNarrow)
      this.calendar.querySelector("[aria-selected=true]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }

  /** @param {number[]} limits */
  drawFoot(limits) {
    const answer = this.answer;
    if (!answer) return;
    const full = answer.buckets.reduce(
      (best, each) => (each.count > (best?.count ?? 0) ? each : best),
      answer.buckets[0],
    );
    const sentence = full
      ? `${memoriesText(answer.total)} on ${counted(answer.buckets.length, "day")} · the fullest: ${DAY_AND_MONTH.format(full.since)}, ${count(full.count)}`
      : `Nothing in ${this.year}`;
    this.calendar.setAttribute("aria-label", `${this.year}: ${sentence}`);
    const names = [
      "none",
      ...limits.map((least, index) =>
        index === limits.length - 1
          ? `${count(least)} and more`
          : limits[index + 1] - 1 === least
            ? count(least)
            : `${count(least)} to ${count(limits[index + 1] - 1)}`,
      ),
    ];
    fill(
      this.foot,
      h("span.meta", sentence),
      this.table.toggle,
      h("span.grow"),
      h(
        "span.legend.meta",
        names.map((name, index) => h("span", h("i", { class: `r${index}` }), ` ${name}`)),
      ),
    );
  }

  /** @param {TimelineAnswer} answer */
  emptyYear(answer) {
    if (answer.first === null || answer.last === null) {
      return emptyState(
        "There is no memory yet",
        `Nothing ${EMPTY_WORDS[this.by]} in this store${this.page.oneNamespace ? `, in namespace ${this.page.namespace}` : ""}: a calendar has nothing to show.`,
        ...firstSteps(),
      );
    }
    const isBefore = new Date(answer.first).getFullYear() > this.year;
    const at = isBefore ? answer.first : answer.last;
    return h(
      "p.note-line",
      isBefore ? `Nothing before ${month(at)}. ` : `Nothing in ${this.year}. `,
      plainButton(`Go to ${dayText(at)}`, () => this.choose(startOfDay(at))),
    );
  }

  markDay() {
    const iso = isoDay(this.day);
    for (const cell of this.calendar.querySelectorAll("[aria-selected=true]")) {
      cell.setAttribute("aria-selected", "false");
      cell.setAttribute("tabindex", "-1");
    }
    const cell = this.calendar.querySelector(`[data-day="${iso}"]`);
    cell?.setAttribute("aria-selected", "true");
    cell?.setAttribute("tabindex", "0");
    if (cell && this.calendar.contains(document.activeElement))
      /** @type {HTMLElement} */ (cell).focus({ preventScroll: true });
  }

  drawTable() {
    const rows = [...this.counts].sort(([one], [other]) => (one < other ? 1 : -1));
    return table(
      ["day", "#memories"],
      rows.map(([iso, number]) =>
        h(
          "tr",
          h(
            "td",
            plainButton(LONG_DAY.format(dayOf(iso)), () => this.choose(dayOf(iso))),
          ),
          h("td.number", { "data-label": "memories" }, count(number)),
        ),
      ),
    );
  }

  // The day

  async readDay() {
    const { day, by } = this;
    /** @type {AbortSignal} */
    let reading;
    await readInto(
      this.page,
      this.hits.list,
      (signal) => {
        reading = signal;
        return Promise.all([
          by === "event" ? this.happened(day, signal) : this.changed(day, by, signal),
          ifKnown(this.count(day, plusDays(day, 1), { step: "hour", signal })),
        ]);
      },
      ([items, counts]) => {
        void this.drawSide(counts, reading);
        return this.dayRows(items, counts);
      },
      "reading the day",
    );
    this.hits.keep();
  }

  /** @param {number} day @param {AbortSignal} signal @returns {Promise<Item[]>} */
  async happened(day, signal) {
    const { memories } = await call(
      "GET /v1/memories",
      { namespace: this.page.namespace, since: day, until: plusDays(day, 1) - 1, limit: SHOWN_MAX },
      { signal },
    );
    return memories.map((memory) => ({ at: memory.event_at, memory, change: null })).sort(inTime);
  }

  /**
   * @param {number} day
   * @param {By} by
   * @param {AbortSignal} signal
   * @returns {Promise<Item[]>}
   */
  async changed(day, by, signal) {
    const until = Math.min(plusDays(day, 1) - 1, Date.now());
    const { added, changed, removed } = await call(
      "GET /v1/diff",
      { namespace: this.page.namespace, since: day, until, limit: SHOWN_MAX },
      { signal },
    );
    const all = by === "stored" ? added : [...added, ...changed, ...removed];
    return all
      .flatMap((change) =>
        change.memory
          ? [
              {
                at: change.at,
                memory: change.memory,
                change: by === "stored" || change.how === "added" ? null : change,
              },
            ]
          : [],
      )
      .sort(inTime);
  }

  /** @param {Item[]} items @param {TimelineAnswer | null} counts */
  dayRows(items, counts) {
    const total = Math.max(items.length, counts?.total ?? 0);
    const today = startOfDay(Date.now());
    const ago = Math.round((today - this.day) / DAY_MS);
    const when = ago === 0 ? "today" : ago === 1 ? "yesterday" : `${duration(ago * (DAY_MS / 1000))} ago`;
    const what = this.by === "changed" ? counted(total, "change") : memoriesText(total);
    fill(
      this.head,
      h("h2.day-title", LONG_DAY.format(this.day)),
      h(
        "span.meta",
        total ? `${total > items.length ? `the ${count(items.length)} stored last of ${what}` : what} · ${when}` : when,
      ),
      this.news.place,
      h("span.grow"),
      button("Day before", "[", () => void this.moveToFull(-1)),
      button("Day after", "]", () => void this.moveToFull(1)),
    );
    return items.length
      ? grouped(items).map((group) => (group.length === 1 ? itemRow(group[0]) : groupRow(group)))
      : h(
          "p.meta.day-empty",
          `Nothing ${EMPTY_WORDS[this.by]} on this day. The nearest days with something are behind [ and ].`,
        );
  }

  /** @param {HTMLElement} row */
  toggle(row) {
    const isOpen = row.classList.contains("opened");
    row.classList.toggle("opened", !isOpen);
    row.querySelector(".more-sign .hidden")?.replaceChildren(isOpen ? "closed" : "open");
    for (let next = row.nextElementSibling; next?.classList.contains("inside"); next = next.nextElementSibling) {
      /** @type {HTMLElement} */ (next).hidden = isOpen;
    }
  }

  /** @param {TimelineAnswer | null} counts @param {AbortSignal} signal */
  async drawSide(counts, signal) {
    const others = h("section");
    fill(
      this.side,
      counts?.total ? h("section", h("h3", "Where it came from"), barRows(sourcesOf(counts), count)) : null,
      counts?.total && counts.hours ? h("section", h("h3", "By hour"), hoursPicture(counts.hours)) : null,
      others,
    );
    const first = this.answer?.first ? new Date(this.answer.first).getFullYear() : this.year;
    const now = new Date().getFullYear();
    const years = [];
    for (let year = now; year >= first && years.length < OTHER_YEARS; year -= 1)
      if (year !== this.year) years.push(year);
    const date = new Date(this.day);
    const found = await Promise.all(
      years.map(async (year) => {
        const day = new Date(year, date.getMonth(), date.getDate()).getTime();
        if (day > Date.now()) return null;
        const { memories } = await call(
          "GET /v1/memories",
          { namespace: this.page.namespace, since: day, until: plusDays(day, 1) - 1, limit: 1 },
          { signal },
        );
        return memories[0] ? { year, day, memory: memories[0] } : null;
      }),
    ).catch((error) => {
      if (error instanceof DOMException || error instanceof ApiError) return [];
      throw error;
    });
    const there = found.flatMap((each) => each ?? []);
    if (!there.length || signal.aborted) return;
    fill(
      others,
      h("h3", "The same day in other years"),
      h(
        "ul.plain-list.years",
        there.map(({ year, day, memory }) =>
          h(
            "li",
            plainButton(String(year), () => this.choose(day)),
            memory.tags.includes("sensitive") ? h("span.meta", "sensitive") : memoryText(memory.content),
          ),
        ),
      ),
    );
  }
}

/**
 * Return the least of each step of colour, such that few days are in the last: one full day must not make all others pale.
 * @param {number[]} counts of the days that have something
 */
function limitsFor(counts) {
  const sorted = [...counts].sort((one, other) => one - other);
  const many = sorted[Math.floor(0.95 * (sorted.length - 1))] ?? 0;
  return STEPS.find((limits) => limits[3] >= 0.8 * many) ?? STEPS[STEPS.length - 1];
}

/**
 * @param {string} iso
 * @returns {number} the beginning of the local day, 0 if it is none
 */
function dayOf(iso) {
  const parts = /^(\d{4})-(\d\d)-(\d\d)$/.exec(iso);
  return parts ? new Date(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3])).getTime() : 0;
}

/** @param {number} day @param {number} days */
function plusDays(day, days) {
  const date = new Date(day);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days).getTime();
}
