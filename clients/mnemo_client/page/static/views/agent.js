// The exact text that an agent is given, and why each line is in it.

import { ApiError, call } from "../api.js";
import { count, counted, memories as memoriesText } from "../format.js";
import { button, fill, h, memoryText } from "../html.js";
import { excerpt, pin, trash } from "../memory.js";
import { commandLine, emptyState, readInto, Rows } from "../part.js";

/** @typedef {import("../app.js").Page} Page */
/** @typedef {import("../app.js").Route} Route */
/** @typedef {import("../../api_types").MemoryView} Memory */
/** @typedef {{text: string, section: string, tokens: number, memory: string | null, more: string[], reason: string | null, weight: number | null, condensed: boolean}} Line */
/** @typedef {{name: string, tokens: number, budget: number | null, left_out: Record<string, number>}} Section */
/** @typedef {{lines: Line[], sections: Section[]}} Explained */
/** @typedef {{text: string, explained: Explained | null, namespace: string, below: import("../../api_types").RecalledMemory[], abstained: boolean}} Given */

const TYPED_MS = 400;
const LINES_FIRST = 8; // of a section; the rest is folded
const BELOW_MAX = 12; // memories below the cut
const AGENTS = ["claude-code", "codex", "cursor", "zed"];
const PERSON = "a person";

/** @type {Record<string, string>} */
const SECTIONS = {
  head: "Counts", core: "Core", profile: "Profile", recent: "Recent", topics: "Topics", triggers: "Triggers", others: "Written by others", preferences: "Instructions", memories: "Memories",
};
/** @type {Record<string, string>} */
const LEFT_OUT = {
  over_budget: "did not fit", sensitive: "sensitive, not asked for", archived: "archived", superseded: "replaced by a newer one", older_value: "replaced by a newer one",
  namespace: "in other namespaces", discarded: "set aside", trashed: "in the trash", working: "working notes of a task", not_relevant: "say nothing about it",
  beyond_top_k: "ranked lower", cut: "below the cut", near_copy: "says the same as another", duplicate_content: "says the same as another", min_score: "score too low",
};

/** @type {import("../app.js").View} */
export default {
  title: "What an agent sees",
  mount: (place, page) => new AgentView(place, page),
};

class AgentView {
  /**
   * @param {HTMLElement} place
   * @param {Page} page
   */
  constructor(place, page) {
    this.page = page;
    /** @type {Given | null} */
    this.given = null;
    /** @type {Map<string, Memory | null>} */
    this.memories = new Map();
    /** @type {Set<string>} sections that are shown whole */
    this.unfolded = new Set();
    this.asked = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {string[]} */
    this.agents = AGENTS;
    this.moments = h("div", { class: "segments", role: "radiogroup", "aria-label": "When" });
    this.namespace = h("select", { "aria-label": "Namespace", on: { change: () => page.set({ ns: this.namespace.value }) } });
    this.as = h("select", { "aria-label": "As if asked by", on: { change: () => page.set({ as: this.as.value === PERSON ? PERSON : this.as.value }) } });
    this.field = h("textarea", { rows: 1, dir: "auto", on: { input: () => this.typed() } });
    this.fieldLabel = h("span", {});
    this.sums = h("div", { class: "sums" });
    this.text = h("div", { class: "given" });
    this.rows = new Rows(this.text);
    const label = (/** @type {string} */ name, /** @type {HTMLElement} */ control) => h("label", {}, h("span", { class: "meta" }, name), control);
    fill(place, h("div", { class: "ask-as" }, h("h1", {}, "What an agent sees"), h("div", {}, h("span", { class: "meta" }, "When"), this.moments),
      label("Namespace", this.namespace), label("As if asked by", this.as), h("label", {}, h("span", { class: "meta" }, this.fieldLabel), this.field), this.sums), this.text);
    this.text.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest("[data-row]");
      if (row && !/** @type {HTMLElement} */ (event.target).closest("button") && !getSelection()?.toString()) /** @type {HTMLElement} */ (row).focus();
    });
    /** @type {Record<string, () => void>} */
    this.keys = { y: () => void this.copy(), ...(page.isReadOnly ? {} : { x: () => this.takeOut(), p: () => this.keepIn() }) };
    void this.readAgents();
  }

  get isPrompt() { return this.page.route.params.get("when") === "prompt"; }
  get agent() { return this.page.route.params.get("as") ?? AGENTS[0]; }
  get words() { return this.page.route.params.get(this.isPrompt ? "prompt" : "task") ?? ""; }

  /** @param {Route} route */
  show(route) {
    this.drawControls();
    const asked = JSON.stringify(["ns", "when", "as", "task", "prompt"].map((name) => route.params.get(name)));
    if (asked === this.asked) return;
    this.asked = asked;
    this.unfolded.clear();
    void this.read();
  }

  drawControls() {
    const moment = (/** @type {string} */ words, /** @type {boolean} */ isChosen, /** @type {string | null} */ value) => h("button", {
      type: "button", role: "radio", "aria-checked": String(isChosen), on: { click: () => this.page.set({ when: value }) },
    }, words);
    fill(this.moments, moment("session starts", !this.isPrompt, null), moment("prompt is sent", this.isPrompt, "prompt"));
    const known = new Set(["default", ...Object.keys(this.page.status?.namespaces ?? {}), this.page.oneNamespace ?? "default"]);
    fill(this.namespace, [...known].map((name) => h("option", { value: name, selected: name === (this.page.oneNamespace ?? "default") }, name === "default" ? name : `${name} + default`)));
    fill(this.as, [...new Set([this.agent, ...this.agents, PERSON])].map((name) => h("option", { value: name, selected: name === this.agent, dir: "auto" }, name)));
    this.fieldLabel.textContent = this.isPrompt ? "Prompt" : "Task, if the agent names one";
    this.field.placeholder = this.isPrompt ? "what is sent to the agent" : "none";
    this.field.rows = this.isPrompt ? 3 : 1;
    if (document.activeElement !== this.field) this.field.value = this.words;
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.page.set({ [this.isPrompt ? "prompt" : "task"]: this.field.value.trim() || null, id: null }), TYPED_MS);
  }

  /** The programs that had conversations come first. */
  async readAgents() {
    try {
      const { sessions } = await call("GET /v1/sessions", { namespace: "*", limit: 100 });
      this.agents = [...new Set([...sessions.flatMap((each) => each.agent_id ?? []), ...AGENTS])];
      this.drawControls();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  refresh() {
    this.memories.clear();
    void this.read();
  }

  async read() {
    if (this.isPrompt && !this.words) {
      fill(this.sums);
      fill(this.text, emptyState("Type a prompt", "What is put before it is shown as the agent gets it, line by line, with what fell below the cut.",
        commandLine("The same on the command line:", "mnemo context 'When do the certificates end?'")));
      return;
    }
    await readInto(this.page, this.text, () => this.askGiven(), (given) => {
      this.given = given;
      this.drawSums();
      return given ? this.lines() : emptyState("This daemon does not explain its texts", "It is older than this page, and would count the text as shown to an agent. Restart it, so that both are of one version.",
        commandLine("", "mnemo down; mnemo up"));
    }, `reading ${memoriesText(this.page.status?.memories ?? 0)}`);
    this.rows.keep();
    void this.readMemories();
  }

  /** @returns {Promise<Given | null>} null: this daemon does not explain its texts */
  async askGiven() {
    try {
      return await this.askExplained();
    } catch (error) {
      if (error instanceof ApiError && error.code === "unknown_parameter") return null;
      throw error;
    }
  }

  /** @returns {Promise<Given>} */
  async askExplained() {
    const namespace = this.page.oneNamespace ?? "default";
    const options = this.agent === PERSON ? {} : { agent: this.agent };
    if (!this.isPrompt) {
      const request = /** @type {import("../../api_types").ResumeQuery} */ ({ namespace, task: this.words || null, explain: true });
      const answer = /** @type {import("../../api_types").ResumeAnswer & {explained?: Explained | null}} */ (await call("GET /v1/resume", request, options));
      return { text: answer.text, explained: answer.explained ?? null, namespace, below: [], abstained: false };
    }
    const request = /** @type {import("../../api_types").ContextRequest} */ ({ query: this.words, namespace, explain: true, dry: true });
    const [answer, recalled] = await Promise.all([
      call("POST /v1/context", request, options),
      call("POST /v1/recall", { query: this.words, namespace, top_k: BELOW_MAX, token_budget: null, dry: true }, options),
    ]);
    const explained = /** @type {{explained?: Explained | null}} */ (answer).explained ?? null;
    return { text: answer.block, explained, namespace, below: recalled.memories.filter((each) => !answer.memories.includes(each.id)), abstained: answer.abstained };
  }

  // The sums at the side

  drawSums() {
    const { given } = this;
    if (!given?.explained) return fill(this.sums);
    const sections = given.explained.sections.filter((each) => each.tokens || each.budget);
    const budget = sections.reduce((sum, each) => sum + (each.budget ?? each.tokens), 0);
    const used = sections.reduce((sum, each) => sum + each.tokens, 0);
    const shade = (/** @type {number} */ index) => ["r4", "r3", "r2", "r1"][index] ?? "none";
    /** @type {Map<string, number>} */
    const left = new Map();
    for (const section of given.explained.sections) {
      for (const [reason, number] of Object.entries(section.left_out)) {
        const words = LEFT_OUT[reason] ?? reason.replaceAll("_", " ");
        left.set(words, (left.get(words) ?? 0) + number);
      }
    }
    fill(this.sums, h("section", {}, h("h2", {}, `${count(used)} of ${count(budget)} tokens`),
      h("div", { class: "budget", role: "img", "aria-label": sections.map((each) => `${SECTIONS[each.name] ?? each.name} ${count(each.tokens)}`).join(", ") },
        sections.map((each, index) => h("i", { class: shade(index), style: { "flex-grow": each.tokens } })), h("i", { class: "free", style: { "flex-grow": Math.max(0, budget - used) } })),
      h("dl", { class: "funnel" }, sections.map((each, index) => h("div", {}, h("dt", {}, h("i", { class: `swatch ${shade(index)}` }), SECTIONS[each.name] ?? each.name),
        h("dd", {}, count(each.tokens), h("span", { class: "meta" }, each.budget ? ` / ${count(each.budget)}` : "")))))),
    h("section", {}, h("h2", {}, "Left out"), left.size ? h("dl", { class: "funnel" }, [...left].map(([words, number]) => h("div", {}, h("dt", {}, words), h("dd", {}, count(number)))))
      : h("p", { class: "meta" }, "nothing")));
  }

  // The text

  /** @returns {import("../html.js").Children} */
  lines() {
    const given = /** @type {Given} */ (this.given);
    const lines = given.explained?.lines ?? given.text.split("\n").map((text) => ({ text, section: "", tokens: 0, memory: null, more: [], reason: null, weight: null, condensed: false }));
    const isEmpty = given.explained ? !lines.some((each) => each.memory) : !given.text.trim();
    if (isEmpty && !given.below.length && this.isPrompt) {
      return emptyState("Nothing is put before this prompt", given.abstained ? "No memory is close enough to be an answer." : "No memory of this namespace or of default says anything about it.");
    }
    if (isEmpty && !this.isPrompt) {
      return emptyState("An agent would be told nothing here", `There is nothing in core or recent of ${given.namespace} or default. Pin what an agent must always know (p on a memory), or let cycles lift what is used.`,
        commandLine("Let your agents ask and remember:", "mnemo setup claude-code"), commandLine("Remember something:", "mnemo add 'Never deploy on a Friday.'"));
    }
    /** @type {Map<string, number>} */
    const seen = new Map();
    let isFolded = "";
    const body = lines.flatMap((line, index) => {
      const isHead = line.memory === null && line.section !== (lines[index - 1]?.section ?? "");
      const isCounted = isFoldable(line, isHead);
      const number = isCounted ? (seen.get(line.section) ?? 0) + 1 : 0;
      if (isCounted) seen.set(line.section, number);
      if (number <= LINES_FIRST || this.unfolded.has(line.section)) return [this.row(line, index, isHead)];
      if (isFolded === line.section) return [];
      isFolded = line.section;
      const rest = lines.filter((each, at) => each.section === line.section && isFoldable(each, each.section !== (lines[at - 1]?.section ?? ""))).slice(LINES_FIRST);
      return [h("tr", {}, h("td", {}), h("td", {}, button(counted(rest.length, "more line"), "", () => {
        this.unfolded.add(line.section);
        fill(this.text, this.lines());
        this.rows.keep();
        void this.readMemories();
      }, { class: "plain" })), h("td", { class: "number" }, count(rest.reduce((sum, each) => sum + each.tokens, 0))), h("td", {}))];
    });
    return [h("table", { class: "lines" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "hidden" }, "line")), h("th", { scope: "col" }, "the text, line by line, as it is given"),
      h("th", { scope: "col", class: "number" }, "tokens"), h("th", { scope: "col" }, "why it is there"))), h("tbody", {}, body)),
    this.below(given), h("div", { class: "actions" }, button("Copy the text", "y", () => void this.copy()),
      this.page.isReadOnly ? null : h("span", { class: "meta" }, "Enter opens a line’s memory · ", h("kbd", {}, "x"), " takes it out, to the trash · ", h("kbd", {}, "p"), " keeps it in"))];
  }

  /**
   * @param {Line} line
   * @param {number} index
   * @param {boolean} isHead
   */
  row(line, index, isHead) {
    const section = isHead ? this.given?.explained?.sections.find((each) => each.name === line.section) : undefined;
    const fit = section ? [section.budget ? `${count(section.budget)} at most` : "", section.left_out.over_budget ? `${count(section.left_out.over_budget)} did not fit` : ""].filter(Boolean).join(" · ") : "";
    const tokens = section ? section.tokens : line.tokens;
    return h("tr", { class: isHead ? "head" : "", tabindex: line.memory ? -1 : null, "data-row": line.memory ? String(index) : null, "data-id": line.memory },
      h("td", { class: "number meta" }, String(index + 1)), h("td", {}, h("code", { class: "text", dir: "auto" }, line.text)),
      h("td", { class: "number", "data-label": "tokens" }, tokens ? count(tokens) : ""),
      h("td", { class: "why" }, h("span", { class: "warning" }), line.reason ?? fit, line.weight === null ? "" : h("span", { class: "meta" }, ` · ${this.isPrompt ? "score" : "weight"} ${line.weight.toFixed(2)}`),
        line.condensed ? h("span", { class: "badge" }, "shortened") : null, line.more.length ? h("span", { class: "meta" }, ` · one line for ${count(line.more.length + 1)}`) : null));
  }

  /** @param {Given} given */
  below(given) {
    if (!this.isPrompt || !given.below.length) return null;
    return h("section", { class: "below-cut" }, h("h2", {}, "the cut: what is below it is not given"), h("ul", { class: "plain-list" }, given.below.map((each) => h("li", { class: "row" },
      h("span", { class: "number" }, each.score.toFixed(2)), each.tags.includes("sensitive") ? excerpt(each)
        : h("button", { type: "button", class: "plain grow memory-link line-clamp", on: { click: () => this.page.set({ id: each.id }) } }, memoryText(each.best?.text ?? each.content))))));
  }

  /** Warn of lines that are replaced, expired, or of low trust: only of those that are shown. */
  async readMemories() {
    const rows = this.rows.all.filter((row) => row.dataset.id);
    await Promise.all(rows.map(async (row) => {
      const id = row.dataset.id ?? "";
      if (!this.memories.has(id)) this.memories.set(id, await call("GET /v1/memories/{id}", {}, { part: id }).catch(() => null));
      const memory = this.memories.get(id);
      const warning = row.querySelector(".warning");
      if (!memory || !warning) return;
      const line = this.given?.explained?.lines[Number(row.dataset.row)];
      const words = memory.superseded_by ? "replaced by a newer one" : memory.expires_at && memory.expires_at < Date.now() ? "expired"
        : line?.section !== "others" && (memory.trust === "import" || memory.trust === "tool") ? `came by ${memory.trust}` : "";
      fill(warning, words ? h("span", { class: "badge warn" }, `⚠ ${words}`) : null, words ? " " : null);
    }));
  }

  // Keys

  async copy() {
    if (!this.given?.text) return;
    await navigator.clipboard.writeText(this.given.text);
    this.page.toast(`Copied: ${counted(this.given.text.split("\n").length, "line")}`);
  }

  takeOut() {
    const id = this.current();
    if (id) void trash(this.page, id);
  }

  async keepIn() {
    const id = this.current();
    const memory = id ? this.memories.get(id) ?? await call("GET /v1/memories/{id}", {}, { part: id }).catch(() => null) : null;
    if (memory) void pin(this.page, memory);
  }

  current() { return this.rows.selected?.dataset.id ?? null; }
  /** @param {number} delta */
  step(delta) { this.rows.step(delta); }
  open() { const id = this.current(); if (id) this.page.set({ id }); }
  leave() { clearTimeout(this.timer); }
}

/**
 * Return whether a line may be folded: it shows a memory, or is one of a list of topics.
 * @param {Line} line
 * @param {boolean} isHead
 */
const isFoldable = (line, isHead) => line.memory !== null || (!isHead && line.section === "topics");
