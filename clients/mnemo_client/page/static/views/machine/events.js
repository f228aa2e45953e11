// What happens, as it happens.

import { fill, h } from "../../html.js";

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const KEPT = 200;
const SHOWN = 12;

/** The log of events. It can be stopped, and goes on with what came meanwhile. */
export class EventLog {
  constructor() {
    this.isStopped = false;
    this.missed = 0;
    /** @type {HTMLElement[]} */
    this.lines = [];
    this.list = h("div.events", { role: "log", "aria-live": "off", "aria-label": "Events", tabindex: 0 });
    this.button = h("button.plain", { "aria-keyshortcuts": "s", on: { click: () => this.stop() } });
    this.title = h("h2.grow");
    this.place = h("section.panel", h("header.row", this.title, this.button), this.list);
    this.draw();
  }

  stop() {
    this.isStopped = !this.isStopped;
    if (!this.isStopped) this.missed = 0;
    this.draw();
  }

  /** @param {string} name @param {any} data */
  heard(name, data) {
    for (const words of wordsOf(name, data)) {
      this.lines.unshift(h("p", h("time", CLOCK.format(Date.now())), ` ${words}`));
      if (this.isStopped) this.missed += 1;
    }
    this.lines.length = Math.min(this.lines.length, KEPT);
    this.draw();
  }

  draw() {
    fill(
      this.title,
      this.isStopped ? "○ Events" : "● Events",
      this.missed ? h("span.meta", ` ${this.missed} came since`) : null,
    );
    fill(this.button, this.isStopped ? "Go on" : "Stop", h("kbd", "s"));
    if (this.isStopped) return;
    fill(
      this.list,
      this.lines.length ? this.lines.slice(0, SHOWN) : h("p.meta", "Nothing has happened since this view was opened."),
    );
  }
}

/** @param {string} name @param {any} data @returns {string[]} */
function wordsOf(name, data) {
  switch (name) {
    case "change":
      return data.memories
        .slice(0, 5)
        .map((/** @type {any} */ each) => `${each.change.padEnd(8)} ${String(each.id).slice(-8)} ${each.namespace}`)
        .concat(data.memories.length > 5 ? [`         and ${data.memories.length - 5} more`] : []);
    case "job":
      return [`job      ${data.name.replaceAll("_", " ")}: ${data.state}${data.reason ? `, ${data.reason}` : ""}`];
    case "progress":
      return [`index    ${data.view} ${Math.floor(100 * data.share)}%`];
    case "operation":
      return [
        `request  ${data.name}: ${data.state === "ended" ? "ended" : data.step}${data.total ? ` ${Math.floor((100 * data.done) / data.total)}%` : ""}`,
      ];
    case "gap":
      return [`gap      changes ${data.since + 1} to ${data.until} are not listed; they are in Lifecycle › Changes`];
    case "start":
      return [`start    at change ${data.seq}`];
    default:
      return [`${name}${data?.reason ? `      ${data.reason}` : ""}`];
  }
}
