// What holds, and since when.

import { ApiError, call } from "../api.js";
import { chainPicture, chainTable } from "../chains.js";
import { withTable } from "../controls.js";
import { heldBars } from "../fact_times.js";
import { count, counted } from "../format.js";
import { button, fill, h, plainButton } from "../html.js";
import { trustMark, undoOf } from "../memory.js";
import { commandLine, emptyState, firstSteps, News, readInto, stopReading } from "../part.js";
import { Sayers } from "../sayers.js";
import { allowBoth, conflictSides, keepFact } from "./facts/decision.js";
import { bySubject, factChips, factHead, factRow } from "./facts/table.js";

/** @typedef {import("../../api_types").FactView} Fact */
/** @typedef {import("../../api_types").ConflictView} Conflict */

const FACTS = 500;
const STEPS = 2; // of the chains around a subject
const TYPED_MS = 150;

/** @type {import("../app.js").View} */
export default { title: "Facts", mount: (place, page) => new Facts(place, page) };

class Facts {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
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
    this.news = new News(() => void this.read());
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.sayers = new Sayers();
    this.sayers.draw = (cell, memory) => fill(cell, trustMark(memory.trust));
    this.summary = h("span.meta", { role: "status" });
    this.withClosed = h("input", {
      type: "checkbox",
      on: { change: () => page.set({ closed: this.withClosed.checked ? null : "no" }) },
    });
    this.field = h("input.chip", {
      type: "search",
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
    this.chips = h("div.chips", { role: "group", "aria-label": "Filters" });
    this.body = h("tbody");
    this.table = h(
      "table.facts-table",
      { role: "grid", tabindex: 0, "aria-label": "Facts by subject" },
      factHead(),
      this.body,
    );
    this.foot = h("div");
    this.list = h("div.pane-list", this.table, this.foot);
    this.side = h("aside.pane", { "aria-label": "About the subject" });
    fill(
      place,
      h(
        "div.main-pane",
        h(
          "header",
          h("h1", "Facts"),
          this.summary,
          this.news.place,
          h("span.grow"),
          this.field,
          h("label", this.withClosed, " with closed ones"),
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

  /** @param {import("../app.js").Route} route */
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
    stopReading(this.foot);
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
    if (name === "change") this.news.add(1);
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
    this.news.clear();
    const { namespace } = this.page;
    const asked = {
      namespace,
      entity: this.page.route.params.get("about") ?? "",
      include_superseded: this.withClosed.checked,
      limit: FACTS,
      cursor,
    };
    await readInto(
      this.page,
      this.foot,
      (signal) =>
        Promise.all([
          call("GET /v1/facts", asked, { signal }),
          call("GET /v1/facts/conflicts", { namespace }, { signal }),
        ]),
      ([answer, { conflicts }]) => {
        this.facts = cursor ? [...this.facts, ...answer.facts] : answer.facts;
        this.total = Math.max(answer.count, this.facts.length);
        this.cursor = answer.cursor;
        this.conflicts = conflicts;
        const before = this.selected ?? this.before; // what was taken away may come back
        this.before = before;
        const isSame = (/** @type {Fact} */ fact) =>
          fact.id === before?.id || (fact.status === "open" && before && wordsOf(fact) === wordsOf(before));
        this.selected = this.facts.find(isSame) ?? null;
        this.draw();
        this.shownSubject = "";
        this.showSubject();
        return [...this.foot.childNodes];
      },
      "reading the facts",
    );
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
    return bySubject(left, params.get("sort") === "name");
  }

  draw() {
    const { params } = this.page.route;
    this.drawSummary();
    fill(this.chips, factChips(this.page, this.facts, this.conflicts.length));
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
            "p.meta",
            `The first ${count(this.facts.length)} of ${count(this.total)}. `,
            plainButton("More", () => void this.read(this.cursor)),
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
    const who = h("td", { role: "gridcell", "data-label": "who" });
    this.sayers.watch(who, fact.memory_id);
    return factRow(fact, isFirst, isDisputed, who);
  }

  drawSummary() {
    const subjects = new Set(this.facts.map((fact) => fact.subject)).size;
    fill(
      this.summary,
      this.facts.length
        ? `${counted(this.facts.length, "fact")}${this.cursor ? ` of ${count(this.total)}` : ""} about ${counted(subjects, "subject")}`
        : "",
    );
  }

  empty() {
    const { params } = this.page.route;
    const filters = ["about", "predicate", "who", "conflicts"].filter((name) => params.get(name));
    if (filters.length && (this.facts.length || params.get("about"))) {
      return emptyState(
        "No fact is left",
        `Left out by: ${filters.join(", ")}.`,
        button("Without the filters", "", () => this.page.set(Object.fromEntries(filters.map((name) => [name, null])))),
      );
    }
    return emptyState(
      "There is no fact yet",
      "Facts are read from sentences that say what somebody or something is, has or does. None of the memories says so yet.",
      commandLine("Say one:", "mnemo add 'Anna works at Siemens since March.'"),
      firstSteps()[0],
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
      const box = h("div.chains-scroll", picture);
      const table = withTable(box, () => chainTable(graph.chains, choose));
      const decision = h("section.decision");
      fill(
        this.side,
        h(
          "div.view-head",
          h("h2.pane-title.text", { dir: "auto" }, subject),
          h("span.meta", `${STEPS} steps around`),
          h("span.grow"),
          graph.chains.length ? table.toggle : null,
        ),
        graph.chains.length ? [box, table.place] : h("p.meta", "No open fact connects it with anything."),
        left || !graph.is_whole
          ? h("p.meta", "There is more than the picture shows; the table has all that was read.")
          : null,
        own.length ? decision : null,
        history.length ? h("section", h("h3", "When each held"), heldBars(history, this.disputed)) : null,
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
    const words = total > 1 ? `${index + 1} of ${total}` : "Next conflict";
    const hasNext = total > 1 || this.conflicts.length > 1;
    fill(
      place,
      conflictSides(conflict, {
        memoryOf: (fact) => this.sayers.known.get(fact.memory_id) ?? null,
        keys: this.isMirrored ? ["→", "←"] : ["←", "→"],
        next: hasNext ? button(words, "n", () => this.nextConflict(), { class: "plain" }) : null,
        act: this.page.isReadOnly
          ? null
          : { keep: (fact) => this.keep(fact), allow: () => this.bothHold(), remove: (fact) => this.notAFact(fact) },
      }),
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

/** @param {Fact} fact */
const wordsOf = ({ subject, predicate, object }) => [subject, predicate, object].join("\n");
