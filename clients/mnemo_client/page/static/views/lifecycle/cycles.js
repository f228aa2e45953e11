// The cycles: what each did, step by step, and taking one back.

import { call } from "../../api.js";
import { table } from "../../controls.js";
import { count, duration, moment } from "../../format.js";
import { button, fill, h } from "../../html.js";
import { commandLine, emptyState, MemoryRows, offerOlder, readInto } from "../../part.js";
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
  const plan = h("div.below");
  const steps = h("div.below");
  const isOpen = () => steps.hasChildNodes();
  const open = h(
    "button.plain.grow.cycle-words",
    {
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
    cycle.namespace === "*" ? null : h("span.meta", { dir: "auto" }, ` · ${cycle.namespace} alone`),
    cycle.requested ? h("span.meta", " · asked for") : null,
  );
  const canUndo = !page.isReadOnly && cycle.undone_at === null && cycle.ended_at !== null && didSomething(cycle);
  return h(
    "div.cycle",
    { role: "listitem", tabindex: -1, "data-row": cycle.id },
    h(
      "div.row",
      h("time.meta", { datetime: new Date(cycle.started_at).toISOString() }, moment(cycle.started_at)),
      open,
      h("span.meta.number", seconds(cycle)),
      h(
        "span.act",
        cycle.undone_at !== null
          ? h("span.badge.past", { title: moment(cycle.undone_at) }, "taken back")
          : canUndo
            ? button(
                "Undo",
                "z",
                () =>
                  void proposeUndo(
                    page,
                    plan,
                    { cycle: cycle.id },
                    { label: "Take the cycle back", done: `The cycle of ${moment(cycle.started_at)} was taken back` },
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
  return table(
    ["step", "what it did", "#time"],
    cycle.steps.map((step) =>
      h(
        "tr",
        h("td", STEPS[step.name] ?? step.name.replaceAll("_", " ")),
        h(
          "td",
          { "data-label": "did" },
          step.skipped
            ? h("span.meta", `left out: ${step.skipped}`)
            : Object.entries(step.counts)
                .filter(([name, number]) => number && name !== "epoch")
                .map(
                  ([name, number]) =>
                    COUNTS.find(([known]) => known === name)?.[1](number, step.name) ??
                    `${name.replaceAll("_", " ")}: ${count(number)}`,
                )
                .join(", ") || "–",
        ),
        h("td.number", { "data-label": "time" }, `${count(step.milliseconds)} ms`),
      ),
    ),
  );
}

export class CyclesTab extends MemoryRows {
  /** @param {Page} page */
  constructor(page) {
    super(page, h("div.cycles", { role: "group", "aria-label": "Cycles" }));
    this.older = h("div");
    this.place = h("div", this.list, this.older);
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
        : h("p", "Run now", h("kbd", "r"), " does it at once; ", h("b", "Preview in full"), " says what it would do."),
      commandLine("On the command line:", "mnemo consolidate"),
    );
  }

  /** @param {string | null} cursor */
  drawOlder(cursor) {
    offerOlder(this.page, this.older, "Older cycles", cursor, async (after) => {
      const answer = await call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN, cursor: after });
      this.list.append(...answer.cycles.map((cycle) => cycleRow(this.page, cycle)));
      return answer.cursor;
    });
  }

  open() {
    /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".cycle-words"))?.click();
  }
}
