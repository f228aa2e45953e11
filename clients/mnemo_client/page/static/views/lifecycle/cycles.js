// The cycles: what each did, taking one back, and what the next would do.

import { ApiError, call } from "../../api.js";
import { count, counted, duration, memories as memoriesText, moment } from "../../format.js";
import { difference } from "../../diff.js";
import { button, fill, h, memoryText } from "../../html.js";
import { excerpt } from "../../memory.js";
import { commandLine, emptyState, readInto, Rows } from "../../part.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").CycleView} Cycle */
/** @typedef {import("../../../api_types").CycleOperationView} Operation */
/** @typedef {import("../../../api_types").UndoAnswer} UndoAnswer */
/** @typedef {{id: string, seq: number, at: number, by: string, what: string}} Later */

const CYCLES_SHOWN = 50;
const MEMORIES_SHOWN = 8; // of those that an undo changes

/** @type {Record<string, string>} what a step is, by its name */
const STEPS = {
  tags: "tags that no longer hold", triage: "judging what is new", promotion: "from buffer to working", cap: "limit of the buffer",
  hygiene: "what does not belong in core", overlap: "what says the same as another", gate: "gate to core", reconcile: "older and newer values",
  session_distillation: "notes of sessions", near_duplicates: "near duplicates", merge: "joining", topic_distillation: "summaries of topics",
  core_summary: "summary of core", decay: "fading", drop: "what has faded",
};

/** @type {[string, (number: number, step: string) => string][]} words for what a step counts */
const COUNTS = [
  ["promote", (number, step) => `${count(number)} to ${step === "gate" ? "core" : "working"}`],
  ["demote", (number) => `${count(number)} out of core`],
  ["archive", (number) => `${count(number)} to archive`],
  ["activate", (number) => `${count(number)} back from archive`],
  ["absorb", (number) => `${counted(number, "near duplicate")} joined`],
  ["merge", (number) => `${count(number)} joined`],
  ["supersede", (number) => `${counted(number, "older value")} replaced`],
  ["distil", (number) => `${counted(number, "summary", "summaries")} written`],
  ["delete", (number) => `${count(number)} to the trash`],
  ["tag", (number) => `${count(number)} tagged`],
  ["retagged", (number) => `${count(number)} tagged anew`],
  ["proposed", (number) => `${counted(number, "proposal")} for you`],
];

/**
 * Return what a cycle did in words: "4 to working, 2 to archive; 2 proposals for you".
 * @param {Cycle} cycle
 */
export function cycleWords(cycle) {
  const parts = COUNTS.flatMap(([name, words]) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const step of cycle.steps) {
      const place = name === "promote" && step.name === "gate" ? "gate" : "";
      if (step.counts[name]) sums.set(place, (sums.get(place) ?? 0) + step.counts[name]);
    }
    return [...sums].map(([place, number]) => words(number, place));
  });
  return parts.join(", ") || "nothing to do";
}

/** @param {Cycle} cycle */
const seconds = (cycle) => (cycle.ended_at === null ? "goes on" : duration((cycle.ended_at - cycle.started_at) / 1000));

/** @param {Cycle} cycle */
const didSomething = (cycle) => cycle.steps.some((step) => COUNTS.some(([name]) => name !== "proposed" && step.counts[name]));

/**
 * Take a cycle back; return the way to have it again.
 * @param {string} id
 */
export async function undoCycle(id) {
  return forwardAgain(await call("POST /v1/undo", { cycle: id }));
}

/**
 * @param {UndoAnswer} done
 * @returns {(() => Promise<UndoAnswer>) | null}
 */
export function forwardAgain(done) {
  const { undo_seq: seq, undo_group: group } = done;
  if (group) return () => call("POST /v1/undo", { group });
  return seq ? () => call("POST /v1/undo", { seq }) : null;
}

/**
 * Show what taking something back would do, and why it cannot be if it cannot, before it is done.
 * @param {Page} page
 * @param {HTMLElement} place
 * @param {import("../../../api_types").UndoRequest} wanted
 * @param {{label: string, done: string}} words
 */
export async function proposeUndo(page, place, wanted, { label, done }) {
  if (place.hasChildNodes()) return fill(place); // a second press closes it
  const keep = button("Keep it", "", () => { fill(place); /** @type {HTMLElement | null} */ (place.closest("[data-row]"))?.focus(); }, { class: "keep" });
  try {
    const plan = await call("POST /v1/undo", { ...wanted, dry_run: true });
    const act = button(label, "", () => {
      fill(place);
      void page.write(async () => ({ text: done, undo: forwardAgain(await call("POST /v1/undo", wanted)) }));
    }, { class: "primary" });
    const list = h("ul", { class: "plain-list" });
    fill(place, h("div", { class: "box undo-plan", role: "group", "aria-label": "What it takes back" },
      h("p", {}, h("b", {}, `Takes back ${counted(plan.seqs.length, "change")} of ${memoriesText(plan.total)}`), "; none of them was changed since."),
      list, h("div", { class: "actions" }, act, keep)));
    act.focus();
    await listMemories(page, list, plan.ids, plan.total);
  } catch (error) {
    if (!(error instanceof ApiError) || error.isGone) return page.fail(error);
    const later = /** @type {Later[]} */ (error.body?.later ?? []);
    if (later.length) keep.textContent = "Leave it";
    fill(place, h("div", { class: "box undo-plan", role: "group", "aria-label": "It cannot be taken back" },
      later.length ? h("p", {}, h("b", { class: "warn" }, `⚠ Nothing is taken back: ${counted(later.length, "change")} came since`),
        " on the same memories. Take those back first.") : h("p", { class: "warn" }, `⚠ ${error.message}`),
      h("ul", { class: "plain-list" }, later.slice(0, MEMORIES_SHOWN).map((each) => h("li", { class: "row" },
        h("button", { type: "button", class: "plain", on: { click: () => page.set({ id: each.id }) } }, h("code", {}, each.id.slice(-8))),
        h("span", { class: "grow meta" }, `${moment(each.at)} · ${each.by || "you"} · ${each.what} ${each.seq}`),
        button("Take this back", "", () => void page.write(async () => ({
          text: `Change ${each.seq} was taken back`, undo: forwardAgain(await call("POST /v1/undo", { seq: each.seq })),
        })), { class: "plain" }))),
      later.length > MEMORIES_SHOWN ? h("li", { class: "meta" }, `and ${count(later.length - MEMORIES_SHOWN)} more`) : null),
      h("div", { class: "actions" }, keep)));
    keep.focus();
  }
}

/**
 * @param {Page} page
 * @param {HTMLElement} list
 * @param {string[]} ids
 * @param {number} total
 */
async function listMemories(page, list, ids, total) {
  const found = await Promise.allSettled(ids.slice(0, MEMORIES_SHOWN).map((id) => call("GET /v1/memories/{id}", {}, { part: id })));
  fill(list, found.map((each) => each.status === "rejected" ? null : h("li", { class: "row" },
    each.value.tags.includes("sensitive") ? excerpt(each.value)
      : h("button", { type: "button", class: "plain grow line-clamp", on: { click: () => page.set({ id: each.value.id }) } }, memoryText(each.value.content)),
    h("span", { class: "meta" }, each.value.state === "active" ? each.value.layer : each.value.state))),
  total > MEMORIES_SHOWN ? h("li", { class: "meta" }, `and ${memoriesText(total - MEMORIES_SHOWN)} more`) : null);
}

/**
 * Return a row of a cycle, with what its steps did behind it.
 * @param {Page} page
 * @param {Cycle} cycle
 */
export function cycleRow(page, cycle) {
  const plan = h("div", { class: "below" });
  const steps = h("div", { class: "below" });
  const isOpen = () => steps.hasChildNodes();
  const open = h("button", { type: "button", class: "plain grow cycle-words", "aria-expanded": "false", on: { click: () => {
    if (isOpen()) fill(steps);
    else fill(steps, stepTable(cycle));
    open.setAttribute("aria-expanded", String(isOpen()));
  } } }, cycleWords(cycle), cycle.namespace === "*" ? null : h("span", { class: "meta", dir: "auto" }, ` · ${cycle.namespace} alone`),
  cycle.requested ? h("span", { class: "meta" }, " · asked for") : null);
  const canUndo = !page.isReadOnly && cycle.undone_at === null && cycle.ended_at !== null && didSomething(cycle);
  return h("div", { class: "cycle", role: "listitem", tabindex: -1, "data-row": cycle.id },
    h("div", { class: "row" }, h("span", { class: "number epoch" }, count(cycle.epoch)),
      h("time", { class: "meta", datetime: new Date(cycle.started_at).toISOString() }, moment(cycle.started_at)), open,
      h("span", { class: "meta number" }, seconds(cycle)),
      h("span", { class: "act" }, cycle.undone_at !== null ? h("span", { class: "badge past", title: moment(cycle.undone_at) }, "taken back")
        : canUndo ? button("Undo", "z", () => void proposeUndo(page, plan, { cycle: cycle.id }, {
          label: "Take the cycle back", done: `Cycle ${count(cycle.epoch)} was taken back`,
        }), { class: "plain undo" }) : null)),
    plan, steps);
}

/** @param {Cycle} cycle */
function stepTable(cycle) {
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), h("th", { scope: "col" }, "what it did"), h("th", { scope: "col", class: "number" }, "time"))),
    h("tbody", {}, cycle.steps.map((step) => h("tr", {}, h("td", {}, STEPS[step.name] ?? step.name.replaceAll("_", " ")),
      h("td", { "data-label": "did" }, step.skipped ? h("span", { class: "meta" }, `left out: ${step.skipped}`)
        : Object.entries(step.counts).filter(([name, number]) => number && name !== "epoch")
          .map(([name, number]) => COUNTS.find(([known]) => known === name)?.[1](number, step.name) ?? `${name.replaceAll("_", " ")}: ${count(number)}`).join(", ") || "–"),
      h("td", { class: "number", "data-label": "time" }, `${count(step.milliseconds)} ms`)))));
}

export class CyclesTab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.list = h("div", { class: "cycles", role: "list", "aria-label": "Cycles" });
    this.older = h("div", {});
    this.place = h("div", {}, this.list, this.older);
    this.rows = new Rows(this.list);
    this.keys = { z: () => /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".undo"))?.click() };
  }

  read() {
    if (this.place.querySelector(".undo-plan")) return; // somebody is deciding
    void readInto(this.page, this.list, () => call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN }), ({ cycles, cursor }) => {
      this.drawOlder(cursor);
      this.list.setAttribute("role", cycles.length ? "list" : "group");
      return cycles.length ? cycles.map((cycle) => cycleRow(this.page, cycle)) : this.nothing();
    }, "reading the cycles").then(() => this.rows.keep());
  }

  nothing() {
    return emptyState("No cycle has run yet", "A cycle lets memories move between the layers, fade, and be joined. One begins half an hour after something happened.",
      this.page.isReadOnly ? null : h("p", {}, "Run now", h("kbd", {}, "r"), " does it at once; ", h("b", {}, "Preview in full"), " says what it would do."),
      commandLine("On the command line:", "mnemo consolidate"));
  }

  /** @param {string | null} cursor */
  drawOlder(cursor) {
    fill(this.older, cursor ? button("Older cycles", "", () => void call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN, cursor }).then((answer) => {
      this.list.append(...answer.cycles.map((cycle) => cycleRow(this.page, cycle)));
      this.drawOlder(answer.cursor);
    }, (error) => this.page.fail(error)), { class: "plain" }) : null);
  }

  current() { return null; }
  /** @param {number} delta */
  step(delta) { this.rows.step(delta); }
  open() { /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".cycle-words"))?.click(); }
}

/** @type {Record<string, string>} what an operation does */
export const ACTIONS = {
  promote: "Move up", demote: "Move out of core", archive: "Archive", activate: "Bring back from archive", merge: "Join two memories",
  absorb: "Keep the one that says all", supersede: "Replace an older value", distil: "Write one for many", delete: "Move to the trash", tag: "Tag",
};

/** What the next cycle would do, operation by operation. */
export class PreviewTab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.place = h("div", { class: "preview" });
    this.rows = new Rows(this.place);
  }

  read() {
    void readInto(this.page, this.place, () => call("POST /v1/consolidate", { namespace: this.page.namespace, dry_run: true }), (answer) => {
      const head = h("p", { class: "list-note" }, h("b", {}, `The next cycle would do this: ${cycleWords(answer.cycle)}. `), "Nothing was changed. ",
        answer.total > answer.operations.length ? `The first ${count(answer.operations.length)} of ${count(answer.total)} operations:` : "");
      if (!answer.operations.length) {
        return [head, h("p", { class: "meta" }, "No memory would move: nothing is old enough, used enough or faded enough. "), stepTable(answer.cycle)];
      }
      return [head, h("div", { role: "list", "aria-label": "Operations" }, answer.operations.map((each, index) => this.row(each, index))), h("h2", {}, "Its steps"), stepTable(answer.cycle)];
    }, "planning the next cycle").then(() => this.rows.keep());
  }

  /**
   * @param {Operation} operation
   * @param {number} index
   */
  row(operation, index) {
    const { texts, text } = operation;
    return h("div", { class: "operation", role: "listitem", tabindex: -1, "data-row": String(index), "data-id": operation.ids[0] },
      h("p", { class: "meta" }, h("b", {}, ACTIONS[operation.action] ?? operation.action), operation.action === "promote" ? ` to ${operation.step === "gate" ? "core" : "working"}` : "",
        ` · ${operation.reason || (STEPS[operation.step] ?? operation.step)}`),
      texts.map((each, at) => each === null ? null : h("p", {}, text && at === 0 ? difference(each, text)
        : h("button", { type: "button", class: "plain memory-link", on: { click: () => this.page.set({ id: operation.ids[at] }) } }, memoryText(each)))),
      text && texts[0] === null ? h("p", {}, h("span", { class: "hidden" }, "added: "), h("ins", { dir: "auto" }, text)) : null);
  }

  current() { return this.rows.selected?.dataset.id ?? null; }
  /** @param {number} delta */
  step(delta) { this.rows.step(delta); }
  open() { const id = this.current(); if (id) this.page.set({ id }); }
  back() { this.page.go("lifecycle"); return true; }
}
