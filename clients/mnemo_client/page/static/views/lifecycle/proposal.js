// One change that waits for a decision: what it is about, what would come of it, and the decision.

import { ApiError, ask, call } from "../../api.js";
import { difference, differenceSides } from "../../diff.js";
import { count, counted, day, dotted, moment, TRUST } from "../../format.js";
import { button, fill, h, memoryText, plainButton } from "../../html.js";
import { trustMark } from "../../memory.js";
import { ACTIONS } from "./cycle_words.js";
import { specificsMissing } from "./specifics.js";

/** @typedef {import("../../../api_types").ProposalView} Proposal */
/** @typedef {import("../../../api_types").MemoryView} Memory */

const SOURCES_SHOWN = 6; // of the memories that one text would stand for
const TRUST_ORDER = ["tool", "import", "agent", "note", "user"];

/** @type {Record<string, string>} what the result of an action is, in words */
const RESULTS = {
  promote: "It moves to core, which an agent always gets.",
  demote: "It moves to working: found when asked for, not given unasked.",
  archive: "It moves to the archive: found when asked for, ranked lower, never given unasked.",
  delete: "It moves to the trash.",
  merge: "B stands, with what A had.",
  absorb: "B stands; A is hidden behind it.",
};
/** @type {Record<string, string>} what happens to the others, said beside the buttons */
const CONSEQUENCES = {
  merge: "A stays in the history, hidden while the result stands",
  absorb: "A stays in the history, hidden while B stands",
  supersede: "A stays in the history, shown under B as “was”",
  distil: "the single ones stay in the history, hidden while the result stands",
};

/** One proposal on the screen. */
export class ProposalBox {
  /** @param {import("./review.js").ReviewTab} tab @param {Proposal} proposal */
  constructor(tab, proposal) {
    this.tab = tab;
    this.page = tab.page;
    this.proposal = proposal;
    this.isDecided = false;
    this.isEditing = false;
    this.result = h("div.column.result");
    this.actions = h("div.actions");
    this.message = h("div", { role: "status" });
    this.place = h("div.proposal", {
      role: "listitem",
      tabindex: -1,
      "data-row": proposal.id,
      "aria-label": this.title,
    });
    this.draw();
  }

  get title() {
    return `${ACTIONS[this.proposal.action] ?? this.proposal.action}: ${this.proposal.reason}`;
  }

  /** @param {Proposal} proposal */
  show(proposal) {
    if (this.isEditing || this.isDecided || proposal.stale === this.proposal.stale) return;
    this.proposal = proposal;
    this.draw();
  }

  draw() {
    const { action, reason, at, stale, similarity, memories } = this.proposal;
    const isSensitive = memories.some((each) => each.tags.includes("sensitive"));
    const body = h("div.columns");
    if (isSensitive) {
      fill(
        body,
        h(
          "div.column",
          h("button.cover", { on: { click: () => fill(body, this.columns()) } }, "sensitive: show the texts"),
        ),
      );
    } else {
      fill(body, this.columns());
    }
    this.place.classList.toggle("stale", stale !== null);
    this.place.classList.toggle("single", memories.length === 1 && this.proposal.text === null);
    fill(
      this.place,
      h(
        "header.row",
        h("b", ACTIONS[action] ?? action),
        h(
          "span.meta.grow",
          reason,
          " ",
          similarity === null ? null : h("span.badge", `alike ${similarity.toFixed(2)}`),
        ),
        h("span.meta", moment(at)),
      ),
      body,
      this.page.isReadOnly ? null : this.foot(),
    );
  }

  foot() {
    const { stale, action, text } = this.proposal;
    if (stale) {
      return h(
        "footer",
        h(
          "p.row",
          h("span.grow.meta", `stale: ${stale}`),
          plainButton("Look again", () => void this.tab.audit()),
          button("Reject", "n", () => void this.reject(), { class: "plain" }),
        ),
      );
    }
    fill(
      this.actions,
      h(
        "button.primary",
        { "aria-keyshortcuts": "y", on: { click: () => void this.approve() } },
        "Approve",
        h("kbd", "y"),
      ),
      text === null ? null : button("Edit, then approve", "e", () => void this.edit()),
      button("Reject", "n", () => void this.reject()),
      h("span.meta.consequence", dotted(CONSEQUENCES[action], "can be undone")),
    );
    return h("footer", this.actions, this.message);
  }

  /** What it is about, and what would come of it. */
  columns() {
    const { memories, text, action } = this.proposal;
    const [first, ...others] = memories;
    if (!first) return h("div.column", h("p.meta", "The memory is gone."));
    if (others.length === 0) {
      fill(
        this.result,
        text ? [h("p.meta", "Result"), difference(first.content, text)] : h("p", "→ ", this.resultWords()),
      );
      return [this.column("", first, memoryText(first.content)), this.result];
    }
    if (others.length > 1) {
      fill(this.result, ...this.resultParts(null));
      return [
        h(
          "div.column.wide",
          memories
            .slice(0, SOURCES_SHOWN)
            .map((each, index) =>
              this.column(
                String.fromCharCode(65 + index),
                each,
                index && action !== "distil"
                  ? differenceSides(each.content, first.content).before
                  : memoryText(each.content),
              ),
            ),
          memories.length > SOURCES_SHOWN ? h("p.meta", `and ${count(memories.length - SOURCES_SHOWN)} more`) : null,
        ),
        this.result,
      ];
    }
    const sides = differenceSides(others[0].content, first.content);
    fill(this.result, ...this.resultParts(first));
    return [this.column("A", others[0], sides.before), this.column("B", first, sides.after), this.result];
  }

  /** @param {string} letter @param {Memory} memory @param {HTMLElement} text */
  column(letter, memory, text) {
    return h(
      "div",
      { class: letter ? "column" : "column wide" },
      h(
        "p.meta.row",
        letter ? `${letter} · ` : "",
        trustMark(memory.trust),
        h("span", `· ${day(memory.event_at)}`),
        memory.access_count ? h("span", `· recalled ${counted(memory.access_count, "time")}`) : null,
        letter === "B" && this.proposal.memories.length === 2
          ? h("span.badge", this.proposal.text ? "stays first" : "stays")
          : null,
        h(
          "button.plain.open-card",
          { "aria-label": `Open ${letter || "it"}`, on: { click: () => this.page.set({ id: memory.id }) } },
          "open",
        ),
      ),
      h("p", text),
    );
  }

  /**
   * @param {Memory | null} against the one that stays, of two
   * @returns {import("../../html.js").Children[]}
   */
  resultParts(against) {
    const { text, memories } = this.proposal;
    if (!text) return [h("p.meta", "Result"), h("p", this.resultWords()), this.trustLine()];
    const missing = specificsMissing(
      memories.map((each) => each.content),
      text,
    );
    return [
      h("p.meta", against ? "Result · against B" : "Result"),
      h("p", against ? difference(against.content, text) : memoryText(text)),
      checkLine(missing, memories.length),
      this.trustLine(),
    ];
  }

  resultWords() {
    const { action, tag } = this.proposal;
    if (action === "tag") return [`It is tagged `, h("span.badge", { dir: "auto" }, `#${tag}`), "."];
    if (action === "supersede") return ["B stands; A is shown under it as ", h("span.badge.past", "was")];
    return RESULTS[action] ?? "It is carried out on the memories as they are.";
  }

  /** A warning where what stays is less trusted than what it hides. */
  trustLine() {
    const [first, ...others] = this.proposal.memories;
    const more = others.find((each) => TRUST_ORDER.indexOf(each.trust) > TRUST_ORDER.indexOf(first.trust));
    if (!more || this.proposal.action === "distil") return null;
    const word = (/** @type {string} */ trust) =>
      trust === "user"
        ? "you said"
        : `came from ${TRUST[trust]?.[1] === "you" ? "you" : `a source “${TRUST[trust]?.[1] ?? trust}”`}`;
    return h("p.warn.check", `⚠ B ${word(first.trust)}: less trusted than A, which ${word(more.trust)}`);
  }

  // Decisions

  /** @param {string} [text] @param {boolean} [isForced] */
  async approve(text, isForced = false) {
    if (this.proposal.stale) return this.page.toast(`It cannot be approved: ${this.proposal.stale}`);
    if (this.isEditing && text === undefined) return;
    try {
      const request = {
        verdict: /** @type {const} */ ("approve"),
        ...(text === undefined ? {} : { text, force: isForced }),
      };
      const { group, ids } = await call("POST /v1/review/{id}", request, { part: this.proposal.id });
      const undo = group
        ? () =>
            void this.page.write(async () => {
              await call("POST /v1/undo", { group });
              this.foldedLine("Approved, and taken back", "it is not proposed again until a text changes", null);
              return { text: "Taken back" };
            })
        : null;
      if (this.isEditing) this.forgetDraft();
      this.isDecided = true;
      this.tab.fold(
        this,
        this.foldedLine("Approved", counted(ids.length, "memory was changed", "memories were changed"), undo),
      );
      this.page.toast(`Approved: ${this.phrase}`, undo);
      this.page.refresh();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 422 || text === undefined) return this.page.fail(error);
      fill(
        this.message,
        h("p.warn", `⚠ ${error.message.replace(/; send it with `force`.*$/, "")}`),
        button("Approve it all the same", "", () => void this.approve(text, true)),
      );
    }
  }

  get phrase() {
    return (ACTIONS[this.proposal.action] ?? this.proposal.action).toLowerCase();
  }

  async reject() {
    const { page, tab } = this;
    if (this.isEditing) this.endEdit();
    try {
      /** @type {import("../../../api_types").VerdictAnswer & {seq?: number | null}} */
      const { seq } = await call("POST /v1/review/{id}", { verdict: "reject" }, { part: this.proposal.id });
      const undo = seq
        ? () =>
            void page.write(async () => {
              await call("POST /v1/undo", { seq });
              this.isDecided = false;
              this.line.remove();
              tab.unfold(this);
              return { text: "Taken back: it waits for you" };
            })
        : null;
      this.isDecided = true;
      tab.fold(this, this.foldedLine("Rejected", "it is not proposed again until a text changes", undo));
      page.toast(`Rejected: ${this.phrase}`, undo);
      page.refresh();
    } catch (error) {
      page.fail(error);
    }
  }

  line = h("li.row");

  /** @param {string} what @param {string} more @param {(() => void) | null} undo */
  foldedLine(what, more, undo) {
    const { memories } = this.proposal;
    fill(
      this.line,
      h("b", what),
      h(
        "span.grow.line-clamp",
        `${ACTIONS[this.proposal.action] ?? this.proposal.action} `,
        memories[0] && !memories[0].tags.includes("sensitive") ? ["“", memoryText(memories[0].content), "”"] : null,
      ),
      h("span.meta", more),
      undo ? plainButton("undo", undo) : null,
    );
    return this.line;
  }

  // The text of the result, written by the person

  async edit() {
    const { text, memories, id, stale } = this.proposal;
    if (this.isEditing || stale) return;
    if (text === null) return this.page.toast("This writes no text that could be edited: approve or reject it");
    this.isEditing = true;
    const draft = await ask(`/page/drafts/review-${id}`).catch(() => null);
    const check = h("div");
    const field = h("textarea.edit", { rows: 6, dir: "auto", "aria-label": "The text of the result" });
    field.value = draft?.text ?? text;
    const look = () =>
      fill(
        check,
        checkLine(
          specificsMissing(
            memories.map((each) => each.content),
            field.value,
          ),
          memories.length,
        ),
      );
    field.addEventListener("input", () => {
      look();
      void ask(`/page/drafts/review-${id}`, { text: field.value }).catch(() => null);
    });
    const save = () => void this.approve(field.value);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    });
    look();
    fill(this.result, h("p.meta", "Result, as you write it"), field, check);
    fill(
      this.actions,
      h("button.primary", { on: { click: save } }, "Approve this text", h("kbd", "Ctrl ↵")),
      button("Back to the proposed text", "Esc", () => this.endEdit()),
    );
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

/** @param {string[]} missing @param {number} sources */
function checkLine(missing, sources) {
  const of = sources === 2 ? "A and B" : "the memories";
  if (!missing.length) return h("p.ok.check", `✓ every number, name and date of ${of} is in it`);
  return h(
    "p.warn.check",
    "⚠ not in it: ",
    h("b", { dir: "auto" }, missing.slice(0, 8).join(", ")),
    missing.length > 8 ? ` and ${missing.length - 8} more` : "",
  );
}
