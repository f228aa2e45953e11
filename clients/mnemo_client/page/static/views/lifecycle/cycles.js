// The cycles: what each did, step by step, and taking one back.

import { call } from "../../api.js";
import { count, duration, moment } from "../../format.js";
import { button, fill, h } from "../../html.js";
import { commandLine, emptyState, readInto, Rows } from "../../part.js";
import { COUNTS, cycleWords, didSomething, STEPS } from "./cycle_words.js";
import { proposeUndo } from "./undo_plan.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").CycleView} Cycle */

const CYCLES_SHOWN = 50;

/** @param {Cycle} cycle */
const seconds = (cycle) => (cycle.ended_at === null ? "goes on" : duration((cycle.ended_at - cycle.started_at) / 1000));

/**
 * Return a row of a cycle, with what its steps did behind it.
 * @param {Page} page
 * @param {Cycle} cycle
 */
export function cycleRow(page, cycle) {
  const plan = h("div", { class: "below" });
  const steps = h("div", { class: "below" });
  const isOpen = () => steps.hasChildNodes();
  const open = h(
    "button",
    {
      type: "button",
      class: "plain grow cycle-words",
      "aria-expanded": "false",
      on: {
        click: () => {
          if (isOpen()) fill(steps);
          else fill(steps, stepTable(cycle));
          open.setAttribute("aria-expanded", String(isOpen()));
        },
      },
    },
    cycleWords(cycle),
    cycle.namespace === "*" ? null : h("span", { class: "meta", dir: "auto" }, ` · ${cycle.namespace} alone`),
    cycle.requested ? h("span", { class: "meta" }, " · asked for") : null,
  );
  const canUndo = !page.isReadOnly && cycle.undone_at === null && cycle.ended_at !== null && didSomething(cycle);
  return h(
    "div",
    { class: "cycle", role: "listitem", tabindex: -1, "data-row": cycle.id },
    h(
      "div",
      { class: "row" },
      h("time", { class: "meta", datetime: new Date(cycle.started_at).toISOString() }, moment(cycle.started_at)),
      open,
      h("span", { class: "meta number" }, seconds(cycle)),
      h(
        "span",
        { class: "act" },
        cycle.undone_at !== null
          ? h("span", { class: "badge past", title: moment(cycle.undone_at) }, "taken back")
          : canUndo
            ? button(
                "Undo",
                "z",
                () =>
                  void proposeUndo(
                    page,
                    plan,
                    { cycle: cycle.id },
                    {
                      label: "Take the cycle back",
                      done: `The cycle of ${moment(cycle.started_at)} was taken back`,
                    },
                  ),
                { class: "plain undo" },
              )
            : null,
      ),
    ),
    plan,
    steps,
  );
}

/** @param {Cycle} cycle */
export function stepTable(cycle) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "step"),
        h("th", { scope: "col" }, "what it did"),
        h("th", { scope: "col", class: "number" }, "time"),
      ),
    ),
    h(
      "tbody",
      {},
      cycle.steps.map((step) =>
        h(
          "tr",
          {},
          h("td", {}, STEPS[step.name] ?? step.name.replaceAll("_", " ")),
          h(
            "td",
            { "data-label": "did" },
            step.skipped
              ? h("span", { class: "meta" }, `left out: ${step.skipped}`)
              : Object.entries(step.counts)
                  .filter(([name, number]) => number && name !== "epoch")
                  .map(
                    ([name, number]) =>
                      COUNTS.find(([known]) => known === name)?.[1](number, step.name) ??
                      `${name.replaceAll("_", " ")}: ${count(number)}`,
                  )
                  .join(", ") || "–",
          ),
          h("td", { class: "number", "data-label": "time" }, `${count(step.milliseconds)} ms`),
        ),
      ),
    ),
  );
}

export class CyclesTab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.list = h("div", { class: "cycles", role: "group", "aria-label": "Cycles" });
    this.older = h("div", {});
    this.place = h("div", {}, this.list, this.older);
    this.rows = new Rows(this.list);
    this.keys = { z: () => /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".undo"))?.click() };
  }

  read() {
    if (this.place.querySelector(".undo-plan")) return; // somebody is deciding
    void readInto(
      this.page,
      this.list,
      () => call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN }),
      ({ cycles, cursor }) => {
        this.drawOlder(cursor);
        this.list.setAttribute("role", cycles.length ? "list" : "group");
        return cycles.length ? cycles.map((cycle) => cycleRow(this.page, cycle)) : this.nothing();
      },
      "reading the cycles",
    ).then(() => this.rows.keep());
  }

  nothing() {
    return emptyState(
      "No cycle has run yet",
      "A cycle lets memories move between the layers, fade, and be joined. One begins half an hour after something happened.",
      this.page.isReadOnly
        ? null
        : h(
            "p",
            {},
            "Run now",
            h("kbd", {}, "r"),
            " does it at once; ",
            h("b", {}, "Preview in full"),
            " says what it would do.",
          ),
      commandLine("On the command line:", "mnemo consolidate"),
    );
  }

  /** @param {string | null} cursor */
  drawOlder(cursor) {
    fill(
      this.older,
      cursor
        ? button(
            "Older cycles",
            "",
            () =>
              void call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN, cursor }).then(
                (answer) => {
                  this.list.append(...answer.cycles.map((cycle) => cycleRow(this.page, cycle)));
                  this.drawOlder(answer.cursor);
                },
                (error) => this.page.fail(error),
              ),
            { class: "plain" },
          )
        : null,
    );
  }

  current() {
    return null;
  }
  /** @param {number} delta */
  step(delta) {
    this.rows.step(delta);
  }
  open() {
    /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".cycle-words"))?.click();
  }
}
