// What will become of each memory, and the decision on it.

import { ApiError, call } from "../api.js";
import { addressOf } from "../app.js";
import { count, duration, moment } from "../format.js";
import { button, fill, h } from "../html.js";
import { ChangesTab } from "./lifecycle/changes.js";
import { CyclesTab } from "./lifecycle/cycles.js";
import { cycleWords } from "./lifecycle/cycle_words.js";
import { PreviewTab } from "./lifecycle/preview.js";
import { undoCycle } from "./lifecycle/undo_plan.js";
import { askForecast, LayersTab } from "./lifecycle/layers.js";
import { ReviewTab } from "./lifecycle/review.js";
import { AsideTab, TrashTab } from "./lifecycle/trash.js";

/** @typedef {import("../app.js").Page} Page */

/**
 * A tab of this view: as a view, but that it has its place itself.
 * @typedef {object} Tab
 * @property {HTMLElement} place
 * @property {() => void} read
 * @property {Record<string, () => void>} [keys]
 * @property {() => string | null} [current]
 * @property {(delta: number) => void} [step]
 * @property {() => void} [open]
 * @property {(name: string, data: any) => void} [heard]
 * @property {() => boolean} [back]
 * @property {() => void} [leave]
 */

/** @type {Record<string, {title: string, make: (page: Page) => Tab}>} by part of the address */
const TABS = {
  layers: { title: "Layers", make: (page) => new LayersTab(page) },
  review: { title: "Review", make: (page) => new ReviewTab(page) },
  cycles: { title: "Cycles", make: (page) => new CyclesTab(page) },
  changes: { title: "Changes", make: (page) => new ChangesTab(page) },
  trash: { title: "Trash", make: (page) => new TrashTab(page) },
  aside: { title: "Set aside", make: (page) => new AsideTab(page) },
};
const PREVIEW = "preview";

/** @type {import("../app.js").View} */
export default { title: "Lifecycle", mount: (place, page) => new Lifecycle(place, page) };

class Lifecycle {
  /** @param {HTMLElement} place @param {Page} page */
  constructor(place, page) {
    this.page = page;
    this.name = "";
    /** @type {Tab | null} */
    this.tab = null;
    this.namespace = "";
    this.isRunning = false;
    this.line = h("span.meta.grow");
    this.actions = h("span.row");
    this.tabs = h("div.tabs", { role: "tablist", "aria-label": "Lifecycle" });
    this.panel = h("div", { role: "tabpanel" });
    fill(place, h("header.view-head", h("h1", "Lifecycle"), this.line, this.actions), this.tabs, this.panel);
  }

  /** @param {import("../app.js").Route} route */
  show(route) {
    const part = route.parts[0] ?? "layers";
    const name = part in TABS || part === PREVIEW ? part : "layers";
    const isOther = name !== this.name;
    if (!isOther && this.namespace === this.page.namespace) return;
    this.namespace = this.page.namespace;
    if (isOther) {
      this.tab?.leave?.();
      this.name = name;
      this.tab = name === PREVIEW ? new PreviewTab(this.page) : TABS[name].make(this.page);
      fill(this.panel, this.tab.place);
    }
    this.drawTabs();
    this.drawActions();
    void this.readHead();
    this.tab?.read();
  }

  get keys() {
    /** @type {Record<string, () => void>} */
    const own =
      this.page.isReadOnly || this.name === "trash" || this.name === "aside" ? {} : { r: () => void this.run() };
    return { ...own, ...this.tab?.keys };
  }

  current() {
    return this.tab?.current?.() ?? null;
  }
  /** @param {number} delta */
  step(delta) {
    this.tab?.step?.(delta);
  }
  open() {
    this.tab?.open?.();
  }
  back() {
    return this.tab?.back?.() ?? false;
  }
  leave() {
    this.tab?.leave?.();
  }
  /** @param {string} name @param {any} data */
  heard(name, data) {
    this.tab?.heard?.(name, data);
  }

  refresh() {
    this.tab?.read();
    void this.readHead();
  }

  drawTabs() {
    const { status } = this.page;
    /** @type {Record<string, number | undefined>} */
    const counts = {
      review: status?.lifecycle?.proposals,
      trash: status?.trash.count,
      aside: status?.by_state.discarded,
    };
    fill(
      this.tabs,
      Object.entries(TABS).map(([name, { title }]) =>
        h(
          "a",
          {
            role: "tab",
            href: addressOf(name === "layers" ? "lifecycle" : `lifecycle/${name}`, {
              ns: this.page.route.params.get("ns"),
            }),
            "aria-selected": String(name === this.name),
          },
          title,
          counts[name] ? h("span.tab-count", ` ${count(counts[name] ?? 0)}`) : null,
        ),
      ),
    );
    this.tabs.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  drawActions() {
    fill(
      this.actions,
      this.page.isReadOnly ? null : button("Preview in full", "", () => this.page.go(`lifecycle/${PREVIEW}`)),
      this.page.isReadOnly
        ? null
        : h(
            "button.run",
            { disabled: this.isRunning, "aria-keyshortcuts": "r", on: { click: () => void this.run() } },
            this.isRunning ? "Running …" : ["Run now", h("kbd", "r")],
          ),
    );
  }

  /** Say which cycle was the last, and when the next one may come. */
  async readHead() {
    try {
      const [{ jobs, last_cycle: last }, forecast] = await Promise.all([
        call("GET /v1/jobs", {}),
        askForecast({ layer: "core", limit: 1, namespace: this.page.namespace }),
      ]);
      const job = jobs.find((each) => each.name === "consolidation");
      const at = forecast?.earliest_at ?? job?.next_at ?? null;
      const seconds = at === null ? 0 : (at - Date.now()) / 1000;
      const next =
        job?.state === "running"
          ? ["a cycle is under way"]
          : job?.state === "waiting" && job.reason
            ? [`the next one waits: ${job.reason}`]
            : at === null && forecast
              ? ["cycles are run on request alone"]
              : seconds > 0
                ? ["next in ", h("b", duration(seconds)), ", if anything happens until then"]
                : ["the next comes after the next change"];
      fill(this.line, last ? `last cycle ${moment(last.started_at)}` : "no cycle yet", " · ", next);
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
    this.drawTabs();
  }

  async run() {
    if (this.isRunning) return;
    this.isRunning = true;
    this.drawActions();
    await this.page.write(async () => {
      const { cycle, total } = await call("POST /v1/consolidate", { namespace: this.page.namespace });
      return { text: `The cycle is done: ${cycleWords(cycle)}`, undo: total ? () => undoCycle(cycle.id) : null };
    });
    this.isRunning = false;
    this.drawActions();
  }
}
