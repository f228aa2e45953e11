// What holds, and since when.

import { ApiError, call } from "../api.js";
import { chainPicture, chainTable } from "../chains.js";
import { emptyState, saySlow, withTable } from "../controls.js";
import { heldBars, heldText } from "../fact_times.js";
import { count, counted } from "../format.js";
import { button, fill, h } from "../html.js";
import { excerpt, trustMark } from "../memory.js";
import { Sayers } from "../sayers.js";

/** @typedef {import("../app.js").Page} Page */
/** @typedef {import("../app.js").Route} Route */
/** @typedef {import("../../api_types").FactView} Fact */
/** @typedef {import("../../api_types").ConflictView} Conflict */
/** @typedef {import("../../api_types").MemoryView} Memory */

const FACTS = 500;
const STEPS = 2; // of the chains around a subject
const TRUST_ORDER = ["user", "note", "agent", "import", "tool"];
const TYPED_MS = 150;

/** @type {import("../app.js").View} */
export default {
  title: "Facts",
  mount: (place, page) => new Facts(place, page),
};

class Facts {
  /**
   * @param {HTMLElement} place
   * @param {Page} page
   */
  constructor(place, page) {
    this.page = page;
    /** @type {Fact[]} */
    this.facts = [];
    /** @type {Conflict[]} */
    this.conflicts = [];
    this.total = 0;
    /** @type {string | null} */
    this.cursor = null;
    /** @type {Fact | null} */
    this.selected = null;
    /** @type {Fact | null} the last that was selected */
    this.before = null;
    this.conflictAt = 0;
    this.askedFor = "";
    this.shownSubject = "";
    this.newCount = 0;
    /** @type {AbortController | null} */
    this.reading = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.sayers = new Sayers();
    this.sayers.draw = (cell, memory) => fill(cell, trustMark(memory.trust));
    this.summary = h("span", { class: "meta", role: "status" });
    this.withClosed = h("input", {
      type: "checkbox",
      on: { change: () => page.set({ closed: this.withClosed.checked ? null : "no" }) },
    });
    this.field = h("input", {
      type: "search",
      class: "chip",
      placeholder: "about …",
      "aria-label": "Facts about",
      dir: "auto",
      on: {
        input: () => {
          clearTimeout(this.timer);
          this.timer = setTimeout(() => page.set({ about: this.field.value.trim() || null }), TYPED_MS);
        },
      },
    });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Filters" });
    this.body = h("tbody", {});
    this.table = h(
      "table",
      { class: "facts-table", role: "grid", tabindex: 0, "aria-label": "Facts by subject" },
      h(
        "thead",
        {},
        h(
          "tr",
          { role: "row" },
          ["subject", "says", "", "holds", "who"].map((name) =>
            h(
              "th",
              { role: "columnheader", class: name === "holds" ? "number" : "" },
              name || h("span", { class: "hidden" }, "what"),
            ),
          ),
        ),
      ),
      this.body,
    );
    this.foot = h("div", {});
    this.list = h("div", { class: "pane-list" }, this.table, this.foot);
    this.side = h("aside", { class: "pane", "aria-label": "About the subject" });
    fill(
      place,
      h(
        "div",
        { class: "main-pane" },
        h(
          "header",
          {},
          h("h1", {}, "Facts"),
          this.summary,
          h("span", { class: "grow" }),
          this.field,
          h("label", {}, this.withClosed, " with closed ones"),
        ),
        this.chips,
        this.list,
      ),
      this.side,
    );
    this.body.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest("tr");
      if (!row || getSelection()?.toString()) return;
      this.select(this.facts.find((fact) => fact.id === row.dataset.fact) ?? null);
    });
    this.body.addEventListener("dblclick", () => this.open());
    /** @type {Record<string, () => void>} */
    this.keys = {
      n: () => this.nextConflict(),
      ".": () => void this.read(),
      ArrowDown: () => {
        if (document.activeElement === this.table) this.step(1);
      },
      ArrowUp: () => {
        if (document.activeElement === this.table) this.step(-1);
      },
    };
    if (page.isReadOnly) return;
    Object.assign(this.keys, {
      ArrowLeft: () => this.keepSide(this.isMirrored ? 1 : 0),
      ArrowRight: () => this.keepSide(this.isMirrored ? 0 : 1),
      b: () => this.bothHold(),
      x: () => {
        if (this.selected) this.notAFact(this.selected);
      },
    });
  }

  /** @param {Route} route */
  show(route) {
    const { params } = route;
    this.withClosed.checked = params.get("closed") !== "no";
    if (document.activeElement !== this.field) this.field.value = params.get("about") ?? "";
    const asked = [this.page.namespace, params.get("about"), params.get("closed")].join("\n");
    if (asked !== this.askedFor) {
      this.askedFor = asked;
      void this.read();
    } else {
      this.draw();
    }
    this.showSubject();
  }

  current() {
    return this.selected?.memory_id ?? null;
  }
  open() {
    if (this.selected) this.page.set({ id: this.selected.memory_id });
  }
  refresh() {
    void this.read();
  }

  leave() {
    this.reading?.abort();
    clearTimeout(this.timer);
    this.sayers.stop();
  }

  back() {
    if (!this.page.route.params.get("subject")) return false;
    this.selected = null;
    this.page.set({ subject: null });
    return true;
  }

  /** @param {string} name */
  heard(name) {
    if (name !== "change") return;
    this.newCount += 1;
    this.drawSummary();
  }

  /** @param {number} delta */
  step(delta) {
    const rows = [...this.body.querySelectorAll("tr")];
    const at = rows.findIndex((row) => row.dataset.fact === this.selected?.id);
    const row = rows[Math.min(rows.length - 1, Math.max(0, at + delta))];
    this.select(this.facts.find((fact) => fact.id === row?.dataset.fact) ?? null);
    this.body.querySelector("tr[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    if (this.page.card && this.selected) this.page.open(this.selected.memory_id);
  }

  /** @param {Fact | null} fact */
  select(fact) {
    this.selected = fact;
    this.markRows();
    if (fact) this.page.set({ subject: fact.subject });
  }

  markRows() {
    const subject = this.page.route.params.get("subject");
    for (const row of this.body.querySelectorAll("tr")) {
      const isSelected = row.dataset.fact === this.selected?.id;
      row.setAttribute("aria-selected", String(isSelected));
      if (isSelected) this.table.setAttribute("aria-activedescendant", row.id);
      row.classList.toggle("of-subject", row.dataset.subject === (this.selected?.subject ?? subject));
    }
  }

  // The table

  /** @param {string | null} [cursor] the next part, after what is shown */
  async read(cursor = null) {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.newCount = 0;
    const { params } = this.page.route;
    const spoken = saySlow(this.foot, "reading the facts …");
    const { namespace } = this.page;
    try {
      const [answer, { conflicts }] = await Promise.all([
        call(
          "GET /v1/facts",
          {
            namespace,
            entity: params.get("about") ?? "",
            include_superseded: this.withClosed.checked,
            limit: FACTS,
            cursor,
          },
          { signal: reading.signal },
        ),
        call("GET /v1/facts/conflicts", { namespace }, { signal: reading.signal }),
      ]);
      this.facts = cursor ? [...this.facts, ...answer.facts] : answer.facts;
      this.total = Math.max(answer.count, this.facts.length);
      this.cursor = answer.cursor;
      this.conflicts = conflicts;
      const before = this.selected ?? this.before; // what was taken away may come back
      this.before = before;
      this.selected =
        (before &&
          this.facts.find(
            (fact) => fact.id === before.id || (fact.status === "open" && wordsOf(fact) === wordsOf(before)),
          )) ??
        null;
      this.draw();
      this.shownSubject = "";
      this.showSubject();
    } catch (error) {
      if (error instanceof DOMException) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.isGone) return this.page.noteDaemon(false);
      fill(
        this.foot,
        h(
          "div",
          { class: "empty" },
          h("p", {}, `⚠ ${error.message}`),
          button("Again", "", () => void this.read()),
        ),
      );
    } finally {
      spoken();
    }
  }

  get disputed() {
    return new Set(this.conflicts.flatMap((each) => each.facts.map((fact) => fact.id)));
  }

  /** The facts that the filters leave, those of a subject together. */
  filtered() {
    const { params } = this.page.route;
    const [predicate, who] = [params.get("predicate"), params.get("who")];
    const disputed = this.disputed;
    const left = this.facts.filter(
      (fact) =>
        (!predicate || fact.predicate === predicate) &&
        (!params.get("conflicts") || disputed.has(fact.id)) &&
        (!who || this.sayers.known.get(fact.memory_id)?.trust === who),
    );
    /** @type {Map<string, Fact[]>} */
    const bySubject = new Map();
    for (const fact of left) {
      const own = bySubject.get(fact.subject);
      if (own) own.push(fact);
      else bySubject.set(fact.subject, [fact]);
    }
    const groups = [...bySubject].map(([subject, facts]) => ({
      subject,
      facts: facts.sort(byTime),
      last: Math.max(...facts.map(changedAt)),
    }));
    return groups.sort(
      params.get("sort") === "name"
        ? (one, other) => one.subject.localeCompare(other.subject)
        : (one, other) => other.last - one.last,
    );
  }

  draw() {
    const { params } = this.page.route;
    this.drawSummary();
    this.drawChips();
    if (params.get("who") && this.facts.some((fact) => !this.sayers.known.has(fact.memory_id))) {
      void this.sayers.read(this.facts.map((fact) => fact.memory_id)).then(
        () => this.draw(),
        (error) => this.page.fail(error),
      );
      return;
    }
    const groups = this.filtered();
    const disputed = this.disputed;
    this.table.hidden = groups.length === 0;
    fill(
      this.body,
      groups.map((group) => group.facts.map((fact, index) => this.row(fact, index === 0, disputed.has(fact.id)))),
    );
    this.markRows();
    fill(
      this.foot,
      groups.length ? null : this.empty(),
      this.cursor
        ? h(
            "p",
            { class: "meta" },
            `The first ${count(this.facts.length)} of ${count(this.total)}. `,
            button("More", "", () => void this.read(this.cursor), { class: "plain" }),
            " or say above what they are about.",
          )
        : null,
    );
  }

  /**
   * @param {Fact} fact
   * @param {boolean} isFirst of its subject
   * @param {boolean} isDisputed
   */
  row(fact, isFirst, isDisputed) {
    const isClosed = fact.status !== "open";
    const who = h("td", { role: "gridcell", "data-label": "who" });
    const row = h(
      "tr",
      {
        role: "row",
        id: `fact-${fact.id}`,
        "data-fact": fact.id,
        "data-subject": fact.subject,
        class: [isClosed ? "closed" : "", isFirst ? "first" : ""].join(" "),
      },
      h(
        "td",
        { role: "gridcell", class: "subject" },
        h("span", { class: isFirst ? "text" : "text hidden", dir: "auto" }, fact.subject),
      ),
      h("td", { role: "gridcell", class: "says" }, h("span", { class: "text", dir: "auto" }, fact.predicate)),
      h(
        "td",
        { role: "gridcell", class: "object" },
        h("span", { class: "text", dir: "auto" }, fact.object),
        " ",
        isDisputed ? h("span", { class: "badge warn" }, "⚠ conflict") : null,
        fact.status === "withdrawn" ? h("span", { class: "badge past" }, "withdrawn") : null,
      ),
      h("td", { role: "gridcell", class: "number holds" }, heldText(fact)),
      who,
    );
    this.sayers.watch(who, fact.memory_id);
    return row;
  }

  drawSummary() {
    const subjects = new Set(this.facts.map((fact) => fact.subject)).size;
    fill(
      this.summary,
      this.facts.length
        ? `${counted(this.facts.length, "fact")}${this.cursor ? ` of ${count(this.total)}` : ""} about ${counted(subjects, "subject")}`
        : "",
      this.newCount ? button(`${count(this.newCount)} new`, ".", () => void this.read(), { class: "new" }) : null,
    );
  }

  drawChips() {
    const { params } = this.page.route;
    const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => {
      const value = params.get(name) ?? "";
      const place = h(
        "select",
        {
          class: value ? "chip on" : "chip",
          "aria-label": label,
          on: { change: () => this.page.set({ [name]: place.value || null }) },
        },
        options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)),
      );
      return place;
    };
    const predicates = [...new Set(this.facts.map((fact) => fact.predicate))].sort();
    const isOnly = params.get("conflicts");
    fill(
      this.chips,
      choice("sort", "sorted by", [
        ["", "sorted by last changed"],
        ["name", "sorted by name"],
      ]),
      choice("predicate", "predicate", [["", "+ predicate"], ...predicates.map((each) => [each, each])]),
      choice("who", "who said it", [
        ["", "+ who said it"],
        ["user", "you"],
        ["note", "notes"],
        ["agent", "agents"],
        ["import", "imports"],
        ["tool", "tools"],
      ]),
      this.conflicts.length || isOnly
        ? h(
            "button",
            {
              type: "button",
              class: isOnly ? "chip on" : "chip",
              "aria-pressed": String(!!isOnly),
              on: { click: () => this.page.set({ conflicts: isOnly ? null : "1" }) },
            },
            "conflicts only ",
            h("b", {}, count(this.conflicts.length)),
          )
        : null,
    );
  }

  empty() {
    const { params } = this.page.route;
    const filters = ["about", "predicate", "who", "conflicts"].filter((name) => params.get(name));
    if (filters.length && (this.facts.length || params.get("about"))) {
      return h(
        "div",
        { class: "empty" },
        h("h2", {}, "No fact is left"),
        h("p", {}, `Left out by: ${filters.join(", ")}.`),
        button("Without the filters", "", () => this.page.set(Object.fromEntries(filters.map((name) => [name, null])))),
      );
    }
    return emptyState(
      "There is no fact yet",
      "Facts are read from sentences that say what somebody or something is, has or does. None of the memories says so yet.",
      [
        ["Say one:", "mnemo add 'Anna works at Siemens since March.'"],
        ["Have a folder of notes read:", "mnemo notes add ~/notes"],
      ],
      this.withClosed.checked ? null : button("Show the closed ones", "", () => this.page.set({ closed: null })),
    );
  }

  // The subject

  showSubject() {
    const { params } = this.page.route;
    const subject = params.get("subject") ?? this.conflicts[0]?.subject ?? this.filtered()[0]?.subject ?? "";
    if (this.shownSubject === subject) return;
    this.shownSubject = subject;
    this.conflictAt = 0;
    this.markRows();
    if (subject) void this.drawSubject(subject);
    else fill(this.side);
  }

  /** @param {string} subject */
  async drawSubject(subject) {
    const choose = (/** @type {string} */ name) => {
      this.selected = null;
      this.page.set({ subject: name, id: null });
    };
    const { namespace } = this.page;
    try {
      const [graph, { history }] = await Promise.all([
        call("GET /v1/facts/graph", { entity: subject, hops: STEPS, namespace }),
        call("GET /v1/facts/history", { subject, namespace }),
      ]);
      if (subject !== this.shownSubject) return;
      const own = this.conflictsOf(subject);
      const { picture, left } = chainPicture(subject, graph.chains, this.disputed, choose);
      const box = h("div", { class: "chains-scroll" }, picture);
      const table = withTable(box, () => chainTable(graph.chains, choose));
      const decision = h("section", { class: "decision" });
      fill(
        this.side,
        h(
          "div",
          { class: "view-head" },
          h("h2", { class: "pane-title text", dir: "auto" }, subject),
          h("span", { class: "meta" }, `${STEPS} steps around`),
          h("span", { class: "grow" }),
          graph.chains.length ? table.toggle : null,
        ),
        graph.chains.length ? [box, table.place] : h("p", { class: "meta" }, "No open fact connects it with anything."),
        left || !graph.is_whole
          ? h("p", { class: "meta" }, "There is more than the picture shows; the table has all that was read.")
          : null,
        own.length ? decision : null,
        history.length ? h("section", {}, h("h3", {}, "When each held"), heldBars(history, this.disputed)) : null,
      );
      if (own.length) await this.drawConflict(decision, own[0], 0, own.length);
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  /** @param {string} subject */
  conflictsOf(subject) {
    return this.conflicts.filter((each) => each.subject.toLocaleLowerCase() === subject.toLocaleLowerCase());
  }

  nextConflict() {
    if (!this.conflicts.length) return this.page.toast("There is no conflict");
    const own = this.conflictsOf(this.shownSubject);
    const place = this.side.querySelector(".decision");
    if (own.length && place && this.conflictAt + 1 < own.length) {
      this.conflictAt += 1;
      void this.drawConflict(/** @type {HTMLElement} */ (place), own[this.conflictAt], this.conflictAt, own.length);
      return;
    }
    const subjects = [...new Set(this.conflicts.map((each) => each.subject))];
    const at = subjects.indexOf(own[0]?.subject ?? "");
    this.selected = null;
    this.page.set({ subject: subjects[(at + 1) % subjects.length] });
  }

  get conflict() {
    return this.conflictsOf(this.shownSubject)[this.conflictAt] ?? null;
  }

  /**
   * @param {HTMLElement} place
   * @param {Conflict} conflict
   * @param {number} index
   * @param {number} total of the subject
   */
  async drawConflict(place, conflict, index, total) {
    await this.sayers.read(conflict.facts.map((fact) => fact.memory_id));
    const memoryOf = (/** @type {Fact} */ fact) => this.sayers.known.get(fact.memory_id) ?? null;
    const best = bestSide(conflict.facts, memoryOf);
    const keys = conflict.facts.length === 2 ? (this.isMirrored ? ["→", "←"] : ["←", "→"]) : [];
    const { isReadOnly } = this.page;
    fill(
      place,
      h(
        "div",
        { class: "row" },
        h("h3", { class: "text", dir: "auto" }, `${conflict.subject} ${conflict.predicate} …?`),
        h(
          "span",
          { class: "badge warn" },
          conflict.facts.length === 2
            ? "⚠ both are said to hold"
            : `⚠ ${count(conflict.facts.length)} are said to hold`,
        ),
        h("span", { class: "grow" }),
        total > 1 || this.conflicts.length > 1
          ? button(total > 1 ? `${index + 1} of ${total}` : "Next conflict", "n", () => this.nextConflict(), {
              class: "plain",
            })
          : null,
      ),
      h(
        "div",
        { class: "sides box" },
        conflict.facts.map((fact, at) => {
          const memory = memoryOf(fact);
          return h(
            "div",
            { class: "conflict-side" },
            h("h4", { class: "text", dir: "auto" }, fact.object),
            memory ? h("blockquote", {}, excerpt(memory)) : h("p", { class: "meta" }, "its sentence is gone"),
            h("p", { class: "meta" }, memory ? [trustMark(memory.trust), " · "] : null, heldText(fact)),
            isReadOnly
              ? null
              : h(
                  "div",
                  { class: "actions" },
                  button("Keep this one", keys[at] ?? "", () => this.keep(fact), {
                    class: fact === best ? "primary" : "",
                  }),
                  button("Not a fact", "", () => this.notAFact(fact), { class: "plain" }),
                ),
          );
        }),
      ),
      isReadOnly
        ? null
        : h(
            "div",
            { class: "row" },
            h("p", { class: "meta grow" }, "The other ends on the day the kept one begins; both stay in the history."),
            button(conflict.facts.length === 2 ? "Both hold" : "All hold", "b", () => this.bothHold(), {
              class: "plain",
            }),
          ),
    );
  }

  /** True where the first side stands at the right. */
  get isMirrored() {
    return getComputedStyle(this.side).direction === "rtl";
  }

  // Decisions

  /** @param {number} side */
  keepSide(side) {
    const fact = this.conflict?.facts.length === 2 ? this.conflict.facts[side] : null;
    if (fact) this.keep(fact);
  }

  /** @param {Fact} kept */
  keep(kept) {
    const conflict = this.conflict;
    if (!conflict) return;
    void this.page.write(() =>
      keepFact(
        kept,
        conflict.facts.filter((fact) => fact !== kept),
      ),
    );
  }

  bothHold() {
    const conflict = this.conflict;
    if (!conflict) return;
    void this.page.write(() => allowBoth(conflict));
  }

  /** @param {Fact} fact */
  notAFact(fact) {
    void this.page.write(async () => {
      const { seq } = await call("DELETE /v1/facts/{id}", { namespace: fact.namespace }, { part: fact.id });
      return { text: `Not a fact: ${fact.predicate} ${fact.object}. Its memory stays`, undo: undoOf(seq) };
    });
  }
}

/**
 * Keep one of several facts: the others end on the day on which it begins, or where they begin later, at once.
 * @param {Fact} kept
 * @param {Fact[]} others
 */
async function keepFact(kept, others) {
  const at = Math.max(kept.valid_from, ...others.map((fact) => fact.valid_from));
  const { seq } = await call("POST /v1/facts/conflicts/decide", {
    namespace: kept.namespace,
    facts: [kept, ...others].map((fact) => fact.id),
    keep: kept.id,
    at,
  });
  return {
    text: `Kept: ${kept.predicate} ${kept.object}. Ended: ${others.map((fact) => fact.object).join(", ")}`,
    undo: undoOf(seq),
  };
}

/** @param {Conflict} conflict */
async function allowBoth({ facts }) {
  const { seq } = await call("POST /v1/facts/conflicts/decide", {
    namespace: facts[0].namespace,
    facts: facts.map((fact) => fact.id),
  });
  return { text: `Both hold: ${facts.map((fact) => fact.object).join(", ")}`, undo: undoOf(seq) };
}

/** @param {number | null} seq */
const undoOf = (seq) => (seq ? () => call("POST /v1/undo", { seq }) : null);

/** @param {Fact} fact */
const wordsOf = ({ subject, predicate, object }) => [subject, predicate, object].join("\n");

/** @param {Fact} fact */
const changedAt = (fact) => fact.valid_to ?? fact.valid_from;

/**
 * @param {Fact} one
 * @param {Fact} other
 */
const byTime = (one, other) => one.predicate.localeCompare(other.predicate) || other.valid_from - one.valid_from;

/**
 * Return the side that is more trusted, or the newer of equals.
 * @param {Fact[]} facts
 * @param {(fact: Fact) => Memory | null} memoryOf
 */
function bestSide(facts, memoryOf) {
  const rank = (/** @type {Fact} */ fact) => TRUST_ORDER.indexOf(memoryOf(fact)?.trust ?? "tool");
  return [...facts].sort((one, other) => rank(one) - rank(other) || other.valid_from - one.valid_from)[0];
}
