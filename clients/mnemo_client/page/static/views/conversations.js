// What was said, where each turn is now, and what the next message would bring.

import { ApiError, call } from "../api.js";
import { addressOf } from "../app.js";
import { count, counted, dotted, moment } from "../format.js";
import { button, fill, h, plainButton } from "../html.js";
import { commandLine, emptyState, readInto, Rows } from "../part.js";
import { TracePanel } from "./conversations/trace.js";
import { tierSections, tiersOf } from "./conversations/turns.js";

/** @typedef {import("../../api_types").SessionView} Session */
/** @typedef {import("../../api_types").SessionAnswer} SessionAnswer */
/** @typedef {import("./conversations/turns.js").Tier} Tier */

const SESSIONS_SHOWN = 50;
const TURNS_SHOWN = 200;
const TOPICS_MAX = 300;
const ENDED_MS = 1_800_000; // after which a session ends by itself
const GATHER_MS = 1000;

/** @type {import("../app.js").View} */
export default { title: "Conversations", mount: (place, page) => new Conversations(place, page) };

class Conversations {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    this.view = place;
    /** @type {Session[]} */
    this.sessions = [];
    /** @type {string | null} */
    this.cursor = null;
    this.limit = SESSIONS_SHOWN;
    /** @type {SessionAnswer | null} */
    this.answer = null;
    this.key = ""; // the session that is shown
    this.namespace = "";
    /** @type {Map<string, Tier>} */
    this.tiers = new Map();
    /** @type {Map<string, string>} */
    this.topics = new Map();
    /** @type {Set<Tier>} */
    this.unfolded = new Set();
    this.news = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.summary = h("p.meta");
    this.list = h("div.sessions", { role: "group", "aria-label": "Conversations" });
    this.head = h("header.session-head");
    this.turns = h("div.turns");
    this.trace = new TracePanel(page, (node) => this.topics.get(node) ?? "a topic");
    this.sessionRows = new Rows(this.list);
    this.turnRows = new Rows(this.turns);
    this.middle = h("div.session", this.head, this.turns);
    fill(
      place,
      h("h1.hidden", "Conversations"),
      h("div.session-list", h("p.title", { "aria-hidden": "true" }, "Conversations"), this.summary, this.list),
      this.middle,
      this.trace.place,
    );
    this.middle.addEventListener("pointerleave", () => {
      if (this.news) void this.readSession();
    });
    /** @type {Record<string, () => void>} */
    this.keys = {
      ".": () => void this.readSession(),
      ArrowLeft: () => this.sessionRows.step(0),
      ArrowRight: () => this.turnRows.step(0),
      ...(page.isReadOnly ? {} : { f: () => void this.file(), c: () => this.chat() }),
    };
  }

  /** @param {import("../app.js").Route} route */
  show(route) {
    this.view.classList.toggle("has-session", route.parts.length > 0);
    const key = `${route.params.get("in") ?? ""}/${route.parts[0] ?? ""}`;
    const isOtherNamespace = this.namespace !== this.page.namespace;
    if (key === this.key && !isOtherNamespace) return;
    this.key = key;
    this.namespace = this.page.namespace;
    this.answer = null;
    this.tiers.clear();
    this.unfolded.clear();
    if (isOtherNamespace || !this.sessions.length) void this.readSessions().then(() => this.readSession());
    else {
      this.drawSessions();
      void this.readSession();
    }
  }

  refresh() {
    void this.readSessions();
    void this.readSession();
  }

  // The sessions

  async readSessions() {
    await readInto(
      this.page,
      this.list,
      () => call("GET /v1/sessions", { namespace: this.page.namespace, limit: this.limit }),
      (answer) => {
        this.sessions = answer.sessions;
        this.cursor = answer.cursor;
        return this.sessionList();
      },
      "reading the conversations",
    );
    this.sessionRows.keep();
  }

  drawSessions() {
    fill(this.list, this.sessionList());
    this.sessionRows.keep();
  }

  /** @returns {import("../html.js").Children} */
  sessionList() {
    const { sessions } = this;
    this.view.classList.toggle("no-session", !sessions.length);
    this.list.setAttribute("role", sessions.length ? "list" : "group");
    if (!sessions.length) {
      fill(this.summary);
      return emptyState(
        "No conversation is remembered",
        "Conversations come from agents that are connected, from a chat, and from imports of what you said elsewhere.",
        commandLine("Connect an agent:", "mnemo setup claude-code"),
        commandLine("Import what you said elsewhere:", "mnemo import --from chatgpt conversations.json"),
        commandLine("Talk with your memories:", "mnemo chat"),
      );
    }
    const live = sessions.filter(goesOn).length;
    fill(
      this.summary,
      `${this.cursor ? `the last ${count(sessions.length)}` : count(sessions.length)}${live ? ` · ${count(live)} ${live === 1 ? "goes" : "go"} on` : ""}`,
    );
    const chosen = this.chosen();
    return [
      sessions.map((session) =>
        h(
          "div.session-row",
          { role: "listitem", tabindex: -1, "data-row": keyOf(session) },
          h(
            "a",
            { href: this.addressOf(session), tabindex: -1, "aria-current": session === chosen ? "page" : null },
            h(
              "span.row",
              h("b.grow.line-clamp", { dir: "auto", title: session.session_id }, session.session_id),
              h("span.meta", goesOn(session) ? "● now" : moment(session.last_at).replace("today ", "")),
            ),
            h(
              "span.meta",
              dotted(
                session.agent_id ?? "no agent",
                counted(session.turns, "turn"),
                session.namespace === "default" ? "" : session.namespace,
              ),
            ),
          ),
        ),
      ),
      this.cursor
        ? plainButton("Older ones", () => {
            this.limit += SESSIONS_SHOWN;
            void this.readSessions();
          })
        : null,
    ];
  }

  /** @param {Session} session */
  addressOf(session) {
    return addressOf(`conversations/${encodeURIComponent(session.session_id)}`, {
      ns: this.page.route.params.get("ns"),
      in: session.namespace,
    });
  }

  /** The session of the address; without one the last. */
  chosen() {
    const { parts, params } = this.page.route;
    if (!parts.length) return this.sessions[0];
    return this.sessions.find(
      (each) => each.session_id === parts[0] && (!params.get("in") || each.namespace === params.get("in")),
    );
  }

  // The turns

  async readSession() {
    clearTimeout(this.timer);
    this.news = 0;
    const { parts, params } = this.page.route;
    const known = this.chosen();
    const id = known?.session_id ?? parts[0];
    if (!id) return (fill(this.head), fill(this.turns), fill(this.trace.place));
    const namespace = known?.namespace ?? params.get("in") ?? this.page.oneNamespace;
    if (!this.topics.size) void this.readTopics(namespace);
    await readInto(
      this.page,
      this.turns,
      () => call("GET /v1/sessions/{id}", { namespace, limit: TURNS_SHOWN }, { part: id }),
      (answer) => {
        const before = this.answer?.session.session_id === id ? this.tiers : new Map();
        this.answer = answer;
        this.drawHead(answer);
        this.trace.show(answer.session);
        const sections = this.sections(answer, before);
        this.tiers = tiersOf(answer);
        return sections;
      },
      "reading the turns",
    );
    this.turnRows.keep();
  }

  /** @param {SessionAnswer} answer @param {Map<string, Tier>} before */
  sections(answer, before) {
    return [
      tierSections(answer, before, this.topics, this.unfolded, () => {
        fill(this.turns, this.sections(answer, this.tiers));
        this.turnRows.keep();
      }),
      answer.cursor
        ? h(
            "p.meta",
            `The last ${count(answer.turns.length)} of ${counted(answer.session.turns, "turn")}. `,
            plainButton("Older ones", () => void this.readOlder(answer)),
          )
        : null,
    ];
  }

  /**
   * Read the turns before those that are shown, and the pairs that they are in.
   * @param {SessionAnswer} answer
   */
  async readOlder(answer) {
    const { session_id: part, namespace } = answer.session;
    try {
      const asked = { namespace, limit: TURNS_SHOWN, cursor: answer.cursor };
      const { turns, pairs, cursor } = await call("GET /v1/sessions/{id}", asked, { part });
      if (this.answer !== answer) return; // it was read again meanwhile
      const known = new Set(answer.pairs.map((pair) => pair.id));
      const more = pairs.filter((pair) => !known.has(pair.id));
      this.answer = { ...answer, turns: [...answer.turns, ...turns], pairs: [...answer.pairs, ...more], cursor };
      this.tiers = tiersOf(this.answer);
      fill(this.turns, this.sections(this.answer, this.tiers));
      this.turnRows.keep();
    } catch (error) {
      this.page.fail(error);
    }
  }

  /** @param {string | null | undefined} namespace */
  async readTopics(namespace) {
    try {
      const { nodes } = await call("GET /v1/graph", { namespace, limit: TOPICS_MAX });
      for (const node of nodes) this.topics.set(node.id, node.label);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  /** @param {SessionAnswer} answer */
  drawHead({ session, tiers }) {
    const flow = (/** @type {number} */ number, /** @type {string} */ words) => [h("b", count(number)), ` ${words}`];
    const isWithoutModel = this.page.status && this.page.status.models.embedding?.state !== "ready";
    fill(
      this.head,
      h(
        "p.back",
        h("a", { href: addressOf("conversations", { ns: this.page.route.params.get("ns") }) }, "‹ all conversations"),
      ),
      h(
        "div.row",
        h("h2.title", { dir: "auto" }, session.session_id),
        goesOn(session) ? h("span.badge.on", "● goes on") : session.ended_at ? h("span.badge.past", "ended") : null,
        h("span.grow"),
        this.page.isReadOnly
          ? null
          : [
              button("File now", "f", () => void this.file()),
              session.ended_at ? null : button("End", "", () => void this.end()),
            ],
      ),
      h(
        "p.meta",
        { dir: "auto" },
        dotted(
          session.agent_id ?? "no agent",
          `in ${session.namespace}`,
          `begun ${moment(session.started_at)}`,
          session.ended_at ? `ended ${moment(session.ended_at)}` : "",
        ),
      ),
      h(
        "p.row.flow",
        h("span", flow(tiers.ring, "in the ring")),
        "→",
        h("span", flow(tiers.recent, "recent")),
        "→",
        h("span", flow(tiers.registry, "in the registry")),
        h("span.grow"),
        h("span", flow(tiers.archived, "archived")),
      ),
      isWithoutModel
        ? h(
            "p.note-line",
            "◐ Without the embedding model turns change tiers by time alone, and none is found by meaning.",
          )
        : null,
      this.news ? button(`${count(this.news)} new`, ".", () => void this.readSession(), { class: "new" }) : null,
    );
  }

  /** @param {string} name @param {any} data */
  heard(name, data) {
    if (name !== "change" || !this.answer) return;
    const { namespace } = this.answer.session;
    if (!data.memories.some((/** @type {any} */ each) => each.namespace === namespace)) return;
    this.news += data.memories.length;
    if (this.middle.matches(":hover")) return this.drawHead(this.answer); // nothing moves under the pointer
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      void this.readSessions();
      void this.readSession();
    }, GATHER_MS);
  }

  // Keys

  /**
   * @param {"POST /v1/sessions/{id}/consolidate" | "POST /v1/sessions/{id}/end"} operation
   * @param {(filed: number) => string} said
   */
  async change(operation, said) {
    const session = this.answer?.session;
    if (!session) return;
    const { session_id: part, namespace } = session;
    await this.page.write(async () => {
      const { filed } = await call(operation, { namespace }, { part });
      return { text: said(filed) };
    });
  }

  file() {
    return this.change("POST /v1/sessions/{id}/consolidate", (filed) =>
      filed
        ? `${counted(filed, "new pair")} in the registry`
        : "Nothing to file: what is recent waits for its answer, or there is nothing",
    );
  }

  end() {
    return this.change(
      "POST /v1/sessions/{id}/end",
      (filed) => `Ended, ${counted(filed, "new pair")} in the registry; it goes on with its next turn`,
    );
  }

  chat() {
    this.view.classList.add("with-trace");
    this.trace.toggleChat();
  }

  get isAtTurns() {
    return this.middle.contains(document.activeElement);
  }
  current() {
    return this.isAtTurns ? (this.turnRows.selected?.dataset.id ?? null) : null;
  }
  /** @param {number} delta */
  step(delta) {
    (this.isAtTurns || this.page.card ? this.turnRows : this.sessionRows).step(delta);
  }
  open() {
    const id = this.current();
    if (id) return this.page.set({ id });
    const session = this.sessions.find((each) => keyOf(each) === this.sessionRows.key);
    if (session) location.hash = this.addressOf(session);
  }
  back() {
    if (!this.page.route.parts.length) return false;
    this.page.go("conversations");
    return true;
  }
  leave() {
    clearTimeout(this.timer);
    this.trace.leave();
  }
}

/** @param {Session} session */
const keyOf = (session) => `${session.namespace}/${session.user_id}/${session.session_id}`;

/** @param {Session} session */
const goesOn = (session) => session.ended_at === null && Date.now() - session.last_at < ENDED_MS;
