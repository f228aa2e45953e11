// The exact text that an agent is given, and why each line is in it.

import { ApiError, call } from "../api.js";
import { counted, memories as memoriesText } from "../format.js";
import { button, fill, h } from "../html.js";
import { excerpt, pin, trash } from "../memory.js";
import { commandLine, emptyState, MemoryRows, readInto } from "../part.js";
import { belowTheCut, linesTable } from "./agent/lines.js";
import { sumsOf } from "./agent/sums.js";

/** @typedef {import("../../api_types").MemoryView} Memory */
/** @typedef {import("./agent/lines.js").Given} Given */

const TYPED_MS = 400;
const AGENTS = ["claude-code", "codex", "cursor", "zed"];
const AGENTS_LISTED = 100;
const PERSON = "a person";

/** @type {import("../app.js").View} */
export default { title: "What an agent sees", mount: (place, page) => new AgentView(place, page) };

class AgentView extends MemoryRows {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    super(page, h("div.given"));
    this.text = this.list;
    /** @type {Given | null} */
    this.given = null;
    /** @type {Map<string, Memory>} */
    this.memories = new Map();
    /** @type {Set<string>} sections that are shown whole */
    this.unfolded = new Set();
    this.asked = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {string[]} */
    this.agents = AGENTS;
    this.moments = h("div.segments", { role: "radiogroup", "aria-label": "When" });
    this.namespace = h("select", {
      "aria-label": "Namespace",
      on: { change: () => page.set({ ns: this.namespace.value }) },
    });
    this.as = h("select", {
      "aria-label": "As if asked by",
      on: { change: () => page.set({ as: this.as.value === PERSON ? PERSON : this.as.value }) },
    });
    this.field = h("textarea", { rows: 1, dir: "auto", on: { input: () => this.typed() } });
    this.fieldLabel = h("span");
    this.sums = h("div.sums");
    const label = (/** @type {string} */ name, /** @type {HTMLElement} */ control) =>
      h("label", h("span.meta", name), control);
    fill(
      place,
      h(
        "div.ask-as",
        h("h1", "What an agent sees"),
        h("div.when", h("span.meta", "When"), this.moments),
        label("Namespace", this.namespace),
        label("As if asked by", this.as),
        h("label", h("span.meta", this.fieldLabel), this.field),
        this.sums,
      ),
      this.text,
    );
    this.text.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest("[data-row]");
      if (row && !(/** @type {HTMLElement} */ (event.target).closest("button")) && !getSelection()?.toString())
        /** @type {HTMLElement} */ (row).focus();
    });
    /** @type {Record<string, () => void>} */
    this.keys = {
      y: () => void this.copy(),
      ...(page.isReadOnly ? {} : { x: () => this.takeOut(), p: () => this.keepIn() }),
    };
    void this.readAgents();
  }

  get isPrompt() {
    return this.page.route.params.get("when") === "prompt";
  }
  get agent() {
    return this.page.route.params.get("as") ?? AGENTS[0];
  }
  get words() {
    return this.page.route.params.get(this.isPrompt ? "prompt" : "task") ?? "";
  }

  /** @param {import("../app.js").Route} route */
  show(route) {
    this.drawControls();
    const asked = JSON.stringify(["ns", "when", "as", "task", "prompt"].map((name) => route.params.get(name)));
    if (asked === this.asked) return;
    this.asked = asked;
    this.unfolded.clear();
    void this.read();
  }

  drawControls() {
    const moment = (/** @type {string} */ words, /** @type {boolean} */ isChosen, /** @type {string | null} */ value) =>
      h(
        "button",
        { role: "radio", "aria-checked": String(isChosen), on: { click: () => this.page.set({ when: value }) } },
        words,
      );
    fill(
      this.moments,
      moment("session starts", !this.isPrompt, null),
      moment("prompt is sent", this.isPrompt, "prompt"),
    );
    const known = new Set([
      "default",
      ...Object.keys(this.page.status?.namespaces ?? {}),
      this.page.oneNamespace ?? "default",
    ]);
    fill(
      this.namespace,
      [...known].map((name) =>
        h(
          "option",
          { value: name, selected: name === (this.page.oneNamespace ?? "default") },
          name === "default" ? name : `${name} + default`,
        ),
      ),
    );
    fill(
      this.as,
      [...new Set([this.agent, ...this.agents, PERSON])].map((name) =>
        h("option", { value: name, selected: name === this.agent, dir: "auto" }, name),
      ),
    );
    this.fieldLabel.textContent = this.isPrompt ? "Prompt" : "Task, if the agent names one";
    this.field.placeholder = this.isPrompt ? "what is sent to the agent" : "none";
    this.field.rows = this.isPrompt ? 3 : 1;
    if (document.activeElement !== this.field) this.field.value = this.words;
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => this.page.set({ [this.isPrompt ? "prompt" : "task"]: this.field.value.trim() || null, id: null }),
      TYPED_MS,
    );
  }

  /** The agents that wrote come first. */
  async readAgents() {
    try {
      const { agents } = await call("GET /v1/agents", { namespace: "*", limit: AGENTS_LISTED });
      this.agents = [...new Set([...agents.map((each) => each.agent_id), ...AGENTS])];
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
      fill(
        this.text,
        emptyState(
          "Type a prompt",
          "What is put before it is shown as the agent gets it, line by line, with what fell below the cut.",
          commandLine("The same on the command line:", "mnemo context 'When do the certificates end?'"),
        ),
      );
      return;
    }
    await readInto(
      this.page,
      this.text,
      () => this.askGiven(),
      (given) => {
        this.given = given;
        this.drawSums();
        return given
          ? this.lines()
          : emptyState(
              "This daemon does not explain its texts",
              "It is older than this page, and would count the text as shown to an agent. Restart it, so that both are of one version.",
              commandLine("", "mnemo down; mnemo up"),
            );
      },
      `reading ${memoriesText(this.page.status?.memories ?? 0)}`,
    );
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
    const { isPrompt, words } = this;
    if (!isPrompt) {
      const asked = { namespace, task: words || null, explain: true };
      const { text, explained } = /** @type {any} */ (await call("GET /v1/resume", asked, options));
      return { text, explained, namespace, isPrompt, abstained: false };
    }
    const asked = { query: words, namespace, explain: true, dry: true };
    const { block: text, explained, abstained } = /** @type {any} */ (await call("POST /v1/context", asked, options));
    return { text, explained, namespace, isPrompt, abstained };
  }

  drawSums() {
    fill(this.sums, this.given ? sumsOf(this.given.explained) : null);
  }

  /** @returns {import("../html.js").Children} */
  lines() {
    const given = /** @type {Given} */ (this.given);
    const isEmpty = !given.explained.lines.some((each) => each.memory);
    if (isEmpty && !given.explained.below.length) return this.nothing(given);
    const unfold = (/** @type {string} */ section) => {
      this.unfolded.add(section);
      fill(this.text, this.lines());
      this.rows.keep();
      void this.readMemories();
    };
    const hint = [
      "Enter opens a line’s memory · ",
      h("kbd", "x"),
      " takes it out, to the trash · ",
      h("kbd", "p"),
      " keeps it in",
    ];
    return [
      linesTable(given, this.unfolded, unfold),
      belowTheCut(given),
      h(
        "div.actions",
        button("Copy the text", "y", () => void this.copy()),
        this.page.isReadOnly ? null : h("span.meta", hint),
      ),
    ];
  }

  /** @param {Given} given */
  nothing({ isPrompt, abstained, namespace }) {
    if (isPrompt) {
      const why = abstained
        ? "No memory is close enough to be an answer."
        : "No memory of this namespace or of default says anything about it.";
      return emptyState("Nothing is put before this prompt", why);
    }
    return emptyState(
      "An agent would get nothing here",
      `There is nothing in core or recent of ${namespace} or default. Pin what an agent must always know (p on a memory), or let cycles lift what is used.`,
      commandLine("Let your agents ask and remember:", "mnemo setup claude-code"),
      commandLine("Remember something:", "mnemo add 'Never deploy on a Friday.'"),
    );
  }

  /** Warn of lines that are replaced, expired, or of low trust: only of those that are shown. */
  async readMemories() {
    const rows = this.rows.all.filter((row) => row.dataset.id);
    const unknown = rows.map((row) => row.dataset.id ?? "").filter((id) => !this.memories.has(id));
    try {
      const { memories } = unknown.length ? await call("GET /v1/memories", { id: unknown }) : { memories: [] };
      for (const memory of memories) this.memories.set(memory.id, memory);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
    for (const row of rows) {
      const memory = this.memories.get(row.dataset.id ?? "");
      const warning = row.querySelector(".warning");
      if (memory && row.matches(".below-row")) fill(row.children[1], excerpt(memory));
      if (!memory || !warning) continue;
      const words = warningOf(memory, this.given?.explained.lines[Number(row.dataset.row)]?.section ?? "");
      fill(warning, words ? [h("span.badge.warn", `⚠ ${words}`), " "] : null);
    }
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

  keepIn() {
    const memory = this.memories.get(this.current() ?? "");
    if (memory) void pin(this.page, memory);
  }

  leave() {
    clearTimeout(this.timer);
  }
}

/** @param {Memory} memory @param {string} section */
function warningOf(memory, section) {
  if (memory.superseded_by) return "replaced by a newer one";
  if (memory.expires_at && memory.expires_at < Date.now()) return "expired";
  const isLessTrusted = memory.trust === "import" || memory.trust === "tool";
  return isLessTrusted && section !== "others" ? `came by ${memory.trust}` : "";
}
