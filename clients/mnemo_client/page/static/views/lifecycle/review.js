// What waits for a person's decision, with the difference that it makes.

import { ApiError, ask, call } from "../../api.js";
import { differenceSides, difference } from "../../diff.js";
import { count, counted, day, moment, TRUST } from "../../format.js";
import { button, fill, h, memoryText } from "../../html.js";
import { trustMark } from "../../memory.js";
import { commandLine, emptyState, readInto, Rows } from "../../part.js";
import { ACTIONS } from "./cycles.js";
import { specificsMissing } from "./specifics.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").ProposalView} Proposal */
/** @typedef {import("../../../api_types").MemoryView} Memory */

const SHOWN = 50;
const SOURCES_SHOWN = 6; // of the memories that one text would stand for
const HELD_MS = 8000; // a rejection cannot be undone, so it is sent only when the way back has ended
const TRUST_ORDER = ["tool", "import", "agent", "note", "user"];

/** @type {Record<string, string>} what the result of an action is, in words */
const RESULTS = {
  promote: "It moves to core, which an agent is always told.", demote: "It moves to working: found when asked for, not told.",
  archive: "It moves to the archive: found when asked for, ranked lower, never told.", delete: "It moves to the trash.",
  merge: "B stands, with what A had.", absorb: "B stands; A is hidden behind it.",
};
/** @type {Record<string, string>} what happens to the others, said beside the buttons */
const CONSEQUENCES = {
  merge: "A stays in the history, hidden while the result stands", absorb: "A stays in the history, hidden while B stands",
  supersede: "A stays in the history, shown under B as “was”", distil: "the single ones stay in the history, hidden while the result stands",
};

export class ReviewTab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.head = h("div", { class: "row list-note" });
    this.decided = h("ul", { class: "plain-list decided", "aria-label": "Decided" });
    this.list = h("div", { class: "proposals", role: "list", "aria-label": "What waits for you" });
    this.place = h("div", { class: "review" }, this.head, this.decided, this.list);
    this.rows = new Rows(this.list);
    /** @type {Map<string, Box>} */
    this.boxes = new Map();
    /** @type {Map<string, () => void>} rejections that are not sent yet, by proposal */
    this.held = new Map();
    this.total = 0;
    const onSelected = (/** @type {(box: Box) => void} */ act) => () => {
      if (page.card) return page.toast("Close the card first (Esc): y, n and e decide on the proposal behind it");
      const box = this.boxes.get(this.rows.key);
      if (box && !box.isDecided) act(box);
    };
    this.sendHeld = () => { for (const send of [...this.held.values()]) send(); };
    addEventListener("pagehide", this.sendHeld);
    /** @type {Record<string, () => void>} */
    this.keys = page.isReadOnly ? {} : {
      y: onSelected((box) => void box.approve()), n: onSelected((box) => box.reject()), e: onSelected((box) => void box.edit()),
    };
  }

  read() {
    const isFirst = !this.boxes.size;
    void readInto(this.page, isFirst ? this.list : h("div", {}), () => call("GET /v1/review", { namespace: this.page.namespace, limit: SHOWN }), ({ proposals, total }) => {
      this.total = total;
      this.update(proposals);
      return isFirst ? [...this.list.childNodes] : null;
    }, "reading what waits").then(() => this.rows.keep());
  }

  get waiting() { return [...this.boxes.values()].filter((box) => !box.isDecided); }

  /**
   * Take in what waits now: nothing that is there moves, what is new comes last.
   * @param {Proposal[]} proposals
   */
  update(proposals) {
    const waiting = new Set(proposals.map((each) => each.id));
    for (const [id, box] of this.boxes) {
      if (waiting.has(id) || box.isDecided) continue;
      box.place.remove();
      this.boxes.delete(id);
    }
    fill(this.list, this.waiting.map((box) => box.place)); // in their order, without what was said of an empty list
    for (const proposal of proposals) {
      const known = this.boxes.get(proposal.id);
      if (known) {
        known.show(proposal);
        continue;
      }
      const box = new Box(this, proposal);
      this.boxes.set(proposal.id, box);
      this.list.append(box.place);
    }
    if (!this.waiting.length) fill(this.list, this.nothing());
    this.drawHead();
  }

  get open() { return () => { const id = this.boxes.get(this.rows.key)?.proposal.memories[0]?.id; if (id) this.page.set({ id }); }; }

  drawHead() {
    const waiting = this.waiting.length;
    const more = this.total > SHOWN ? `The first ${count(waiting)} of ${count(this.total)} changes that wait for you. ` : `${counted(waiting, "change waits", "changes wait")} for you. `;
    const key = (/** @type {string} */ name, /** @type {string} */ what) => [h("kbd", {}, name), ` ${what} `];
    fill(this.head, waiting ? [h("span", { class: "grow" }, more, "Nothing happens until you say so."),
      this.page.isReadOnly ? null : h("span", { class: "meta keys-line" }, key("y", "approve"), key("n", "reject"), key("e", "edit"), key("j k", "move"))] : null);
  }

  nothing() {
    const setting = "mnemo config lifecycle.review";
    return [emptyState("All decided", ["Nothing waits for your decision. Which changes of a cycle wait is said by the setting ", h("code", {}, "lifecycle.review"),
      ": ", h("code", {}, "core"), " for those to core, ", h("code", {}, "all"), " also for those that hide or rewrite a memory."],
    commandLine("See how it is set:", setting),
    this.page.isReadOnly ? null : h("p", { class: "row" }, button("Look for something now", "", () => void this.audit()), h("span", { class: "meta" }, "an audit of core and working; it proposes, and changes nothing")),
    commandLine("The same on the command line:", "mnemo audit"))];
  }

  async audit() {
    await this.page.write(async () => {
      const answer = await call("POST /v1/audit", { namespace: this.page.namespace });
      return { text: `Looked through ${counted(answer.reviewed, "memory", "memories")}: ${counted(answer.proposed, "new proposal")}` };
    });
  }

  /**
   * Fold a decided proposal to a line at the top, and give the next one the focus. What is under the pointer stays
   * where it is, as far as the page can scroll.
   * @param {Box} box
   * @param {HTMLElement} line
   */
  fold(box, line) {
    const boxes = [...this.boxes.values()];
    const at = boxes.indexOf(box);
    const next = [...boxes.slice(at + 1), ...boxes.slice(0, at).reverse()].find((each) => !each.isDecided);
    const before = next?.place.getBoundingClientRect().top ?? 0;
    box.place.remove();
    this.decided.append(line);
    this.drawHead();
    if (next) {
      next.place.focus({ preventScroll: true });
      scrollBy(0, next.place.getBoundingClientRect().top - before);
      next.place.scrollIntoView({ block: "nearest" });
    } else {
      fill(this.list, this.nothing());
      /** @type {HTMLElement | null} */ (line.querySelector("button"))?.focus();
    }
  }

  /** @param {Box} box */
  unfold(box) {
    if (this.waiting.length === 1) fill(this.list);
    this.list.prepend(box.place);
    this.drawHead();
    box.place.focus();
  }

  current() { return null; }
  /** @param {number} delta */
  step(delta) { this.rows.step(delta); }
  back() {
    const box = [...this.boxes.values()].find((each) => each.isEditing);
    box?.endEdit();
    return box !== undefined;
  }
  leave() {
    removeEventListener("pagehide", this.sendHeld);
    this.sendHeld();
  }
}

/** One proposal. */
class Box {
  /**
   * @param {ReviewTab} tab
   * @param {Proposal} proposal
   */
  constructor(tab, proposal) {
    this.tab = tab;
    this.page = tab.page;
    this.proposal = proposal;
    this.isDecided = false;
    this.isEditing = false;
    this.result = h("div", { class: "column result" });
    this.actions = h("div", { class: "actions" });
    this.message = h("div", { role: "status" });
    this.place = h("div", { class: "proposal", role: "listitem", tabindex: -1, "data-row": proposal.id, "aria-label": this.title });
    this.draw();
  }

  get title() { return `${ACTIONS[this.proposal.action] ?? this.proposal.action}: ${this.proposal.reason}`; }

  /** @param {Proposal} proposal */
  show(proposal) {
    if (this.isEditing || this.isDecided || proposal.stale === this.proposal.stale) return;
    this.proposal = proposal;
    this.draw();
  }

  draw() {
    const { action, reason, at, stale, similarity, memories } = this.proposal;
    const isSensitive = memories.some((each) => each.tags.includes("sensitive"));
    const body = h("div", { class: "columns" });
    if (isSensitive) {
      fill(body, h("div", { class: "column" }, h("button", { type: "button", class: "cover", on: { click: () => fill(body, this.columns()) } }, "sensitive: show the texts")));
    } else {
      fill(body, this.columns());
    }
    this.place.classList.toggle("stale", stale !== null);
    this.place.classList.toggle("single", memories.length === 1 && this.proposal.text === null);
    fill(this.place, h("header", { class: "row" }, h("b", {}, ACTIONS[action] ?? action), h("span", { class: "meta grow" }, reason, " ",
      similarity === null ? null : h("span", { class: "badge" }, `alike ${similarity.toFixed(2)}`)), h("span", { class: "meta" }, moment(at))), body,
    this.page.isReadOnly ? null : this.foot());
  }

  foot() {
    const { stale, action, text } = this.proposal;
    if (stale) {
      return h("footer", {}, h("p", { class: "row" }, h("span", { class: "grow meta" }, `stale: ${stale}`),
        button("Look again", "", () => void this.tab.audit(), { class: "plain" }), button("Reject", "n", () => this.reject(), { class: "plain" })));
    }
    fill(this.actions, h("button", { type: "button", class: "primary", "aria-keyshortcuts": "y", on: { click: () => void this.approve() } }, "Approve", h("kbd", {}, "y")),
      text === null ? null : button("Edit, then approve", "e", () => void this.edit()), button("Reject", "n", () => this.reject()),
      h("span", { class: "meta consequence" }, [CONSEQUENCES[action], "can be undone"].filter(Boolean).join(" · ")));
    return h("footer", {}, this.actions, this.message);
  }

  /** What it is about, and what would come of it. */
  columns() {
    const { memories, text, action } = this.proposal;
    const [first, ...others] = memories;
    if (!first) return h("div", { class: "column" }, h("p", { class: "meta" }, "The memory is gone."));
    if (others.length === 0) {
      fill(this.result, text ? [h("p", { class: "meta" }, "Result"), difference(first.content, text)] : h("p", {}, "→ ", this.resultWords()));
      return [this.column("", first, memoryText(first.content)), this.result];
    }
    if (others.length > 1) {
      fill(this.result, ...this.resultParts(null));
      return [h("div", { class: "column wide" }, memories.slice(0, SOURCES_SHOWN).map((each, index) =>
        this.column(String.fromCharCode(65 + index), each, index && action !== "distil" ? differenceSides(each.content, first.content).before : memoryText(each.content))),
      memories.length > SOURCES_SHOWN ? h("p", { class: "meta" }, `and ${count(memories.length - SOURCES_SHOWN)} more`) : null), this.result];
    }
    const sides = differenceSides(others[0].content, first.content);
    fill(this.result, ...this.resultParts(first));
    return [this.column("A", others[0], sides.before), this.column("B", first, sides.after), this.result];
  }

  /**
   * @param {string} letter
   * @param {Memory} memory
   * @param {HTMLElement} text
   */
  column(letter, memory, text) {
    return h("div", { class: letter ? "column" : "column wide" }, h("p", { class: "meta row" }, letter ? `${letter} · ` : "", trustMark(memory.trust), h("span", {}, `· ${day(memory.event_at)}`),
      memory.access_count ? h("span", {}, `· recalled ${counted(memory.access_count, "time")}`) : null,
      letter === "B" && this.proposal.memories.length === 2 ? h("span", { class: "badge" }, this.proposal.text ? "stays first" : "stays") : null,
      h("button", { type: "button", class: "plain open-card", "aria-label": `Open ${letter || "it"}`, on: { click: () => this.page.set({ id: memory.id }) } }, "open")),
    h("p", {}, text));
  }

  /**
   * @param {Memory | null} against the one that stays, of two
   * @returns {import("../../html.js").Children[]}
   */
  resultParts(against) {
    const { text, memories } = this.proposal;
    if (!text) return [h("p", { class: "meta" }, "Result"), h("p", {}, this.resultWords()), this.trustLine()];
    const missing = specificsMissing(memories.map((each) => each.content), text);
    return [h("p", { class: "meta" }, against ? "Result · against B" : "Result"), h("p", {}, against ? difference(against.content, text) : memoryText(text)),
      checkLine(missing, memories.length), this.trustLine()];
  }

  resultWords() {
    const { action, tag } = this.proposal;
    if (action === "tag") return [`It is tagged `, h("span", { class: "badge", dir: "auto" }, `#${tag}`), "."];
    if (action === "supersede") return ["B stands; A is shown under it as ", h("span", { class: "badge past" }, "was")];
    return RESULTS[action] ?? "It is carried out on the memories as they are.";
  }

  /** A warning where what stays is less trusted than what it hides. */
  trustLine() {
    const [first, ...others] = this.proposal.memories;
    const more = others.find((each) => TRUST_ORDER.indexOf(each.trust) > TRUST_ORDER.indexOf(first.trust));
    if (!more || this.proposal.action === "distil") return null;
    const word = (/** @type {string} */ trust) => (trust === "user" ? "you said" : `came from ${TRUST[trust]?.[1] === "you" ? "you" : `a source “${TRUST[trust]?.[1] ?? trust}”`}`);
    return h("p", { class: "warn check" }, `⚠ B ${word(first.trust)}: less trusted than A, which ${word(more.trust)}`);
  }

  // Decisions

  /**
   * @param {string} [text]
   * @param {boolean} [isForced]
   */
  async approve(text, isForced = false) {
    if (this.proposal.stale) return this.page.toast(`It cannot be approved: ${this.proposal.stale}`);
    if (this.isEditing && text === undefined) return;
    try {
      const request = { verdict: /** @type {const} */ ("approve"), ...(text === undefined ? {} : { text, force: isForced }) };
      const { group, ids } = await call("POST /v1/review/{id}", request, { part: this.proposal.id });
      const undo = group ? () => void this.page.write(async () => {
        await call("POST /v1/undo", { group });
        this.foldedLine("Approved, and taken back", "it is not proposed again until a text changes", null);
        return { text: "Taken back" };
      }) : null;
      if (this.isEditing) this.forgetDraft();
      this.isDecided = true;
      this.tab.fold(this, this.foldedLine("Approved", counted(ids.length, "memory was changed", "memories were changed"), undo));
      this.page.toast(`Approved: ${this.phrase}`, undo);
      this.page.refresh();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 422 || text === undefined) return this.page.fail(error);
      fill(this.message, h("p", { class: "warn" }, `⚠ ${error.message}`), button("Approve it all the same", "", () => void this.approve(text, true)));
    }
  }

  get phrase() { return (ACTIONS[this.proposal.action] ?? this.proposal.action).toLowerCase(); }

  /** Reject it: in eight seconds, until which it can be kept, for a rejection has no way back. */
  reject() {
    const { page, tab, proposal } = this;
    if (this.isEditing) this.endEdit();
    this.isDecided = true;
    const send = async () => {
      clearTimeout(timer);
      if (!tab.held.delete(proposal.id)) return;
      try {
        await call("POST /v1/review/{id}", { verdict: "reject" }, { part: proposal.id });
        this.foldedLine("Rejected", "it is not proposed again until a text changes", null);
      } catch (error) {
        back();
        page.fail(error);
      }
    };
    const back = () => {
      clearTimeout(timer);
      tab.held.delete(proposal.id);
      this.isDecided = false;
      this.line.remove();
      tab.unfold(this);
    };
    const undo = () => { if (tab.held.has(proposal.id)) { back(); page.toast("Kept: it waits for you"); } else page.toast("It was rejected already"); };
    const timer = setTimeout(() => void send(), HELD_MS);
    tab.held.set(proposal.id, () => void send());
    tab.fold(this, this.foldedLine("To be rejected", `in ${HELD_MS / 1000} s`, undo));
    page.toast(`Will be rejected in ${HELD_MS / 1000} s: ${this.phrase}`, undo);
  }

  line = h("li", { class: "row" });

  /**
   * @param {string} what
   * @param {string} more
   * @param {(() => void) | null} undo
   */
  foldedLine(what, more, undo) {
    const { memories } = this.proposal;
    fill(this.line, h("b", {}, what), h("span", { class: "grow line-clamp" }, `${ACTIONS[this.proposal.action] ?? this.proposal.action} `,
      memories[0] && !memories[0].tags.includes("sensitive") ? ["“", memoryText(memories[0].content), "”"] : null), h("span", { class: "meta" }, more),
    undo ? button("undo", "", undo, { class: "plain" }) : null);
    return this.line;
  }

  // The text of the result, written by the person

  async edit() {
    const { text, memories, id, stale } = this.proposal;
    if (this.isEditing || stale) return;
    if (text === null) return this.page.toast("This writes no text that could be edited: approve or reject it");
    this.isEditing = true;
    const draft = await ask(`/page/drafts/review-${id}`).catch(() => null);
    const check = h("div", {});
    const field = h("textarea", { class: "edit", rows: 6, dir: "auto", "aria-label": "The text of the result" });
    field.value = draft?.text ?? text;
    const look = () => fill(check, checkLine(specificsMissing(memories.map((each) => each.content), field.value), memories.length));
    field.addEventListener("input", () => {
      look();
      void ask(`/page/drafts/review-${id}`, { text: field.value }).catch(() => null);
    });
    const save = () => void this.approve(field.value);
    field.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(); });
    look();
    fill(this.result, h("p", { class: "meta" }, "Result, as you write it"), field, check);
    fill(this.actions, h("button", { type: "button", class: "primary", on: { click: save } }, "Approve this text", h("kbd", {}, "Ctrl ↵")),
      button("Back to the proposed text", "Esc", () => this.endEdit()));
    field.focus();
  }

  endEdit() {
    this.isEditing = false;
    this.forgetDraft();
    fill(this.message);
    this.draw();
    this.place.focus();
  }

  forgetDraft() {
    void ask(`/page/drafts/review-${this.proposal.id}`, { text: null }).catch(() => null);
  }
}

/**
 * @param {string[]} missing
 * @param {number} sources
 */
function checkLine(missing, sources) {
  const of = sources === 2 ? "A and B" : "the memories";
  if (!missing.length) return h("p", { class: "ok check" }, `✓ every number, name and date of ${of} is in it`);
  return h("p", { class: "warn check" }, "⚠ not in it: ", h("b", { dir: "auto" }, missing.slice(0, 8).join(", ")), missing.length > 8 ? ` and ${missing.length - 8} more` : "");
}
