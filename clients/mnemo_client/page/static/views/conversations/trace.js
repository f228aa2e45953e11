// What a message would recall in a session; and a chat with the memory in it.

import { ApiError, call } from "../../api.js";
import { count, counted, duration } from "../../format.js";
import { button, fill, h, memoryText, plainButton } from "../../html.js";
import { memoryLink, sensitiveIds, textOrCover } from "../../memory.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").SessionView} Session */

const QUIET_MS = 300;
/** @type {Record<string, string>} */
const DROPPED = {
  below_sim_threshold: "not near enough in meaning",
  superseded: "an older value",
  in_ring: "in the ring already",
  duplicate_content: "the same text as another",
  over_limit: "beyond the six that are given",
};
/** @type {Record<string, string>} */
const STAGES = { hot: "recalled before in this session", recent: "recent", nodes: "topic" };

export class TracePanel {
  /** @param {Page} page @param {(node: string) => string} topicName */
  constructor(page, topicName) {
    this.page = page;
    this.topicName = topicName;
    /** @type {Session | null} */
    this.session = null;
    this.isChat = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.number = 0;
    this.place = h("aside.side.trace-panel", { "aria-label": "What a message would recall" });
  }

  /** @param {Session} session */
  show(session) {
    const isOther = this.session?.session_id !== session.session_id || this.session.namespace !== session.namespace;
    this.session = session;
    if (isOther) this.draw();
  }

  leave() {
    clearTimeout(this.timer);
  }

  toggleChat() {
    if (this.page.isReadOnly) return;
    this.isChat = !this.isChat;
    this.draw();
    this.place.querySelector("textarea")?.focus();
  }

  draw() {
    if (!this.session) return fill(this.place);
    if (this.isChat) return this.drawChat();
    const found = h("div.found", { "aria-live": "polite" });
    const took = h("p.meta", "nothing is sent, and nothing counts as used");
    const field = h("textarea", {
      rows: 2,
      dir: "auto",
      "aria-label": "What would a message recall here?",
      placeholder: "type a message",
      on: {
        input: () => {
          clearTimeout(this.timer);
          this.timer = setTimeout(() => void this.explain(field.value.trim(), found, took), QUIET_MS);
        },
      },
    });
    fill(
      this.place,
      h("h2", "What would a message recall here?"),
      field,
      took,
      found,
      this.page.isReadOnly
        ? null
        : h(
            "section",
            button("Chat with this memory …", "c", () => this.toggleChat()),
          ),
    );
  }

  /** @param {string} query @param {HTMLElement} place @param {HTMLElement} took */
  async explain(query, place, took) {
    const { session } = this;
    const number = ++this.number;
    if (!query || !session) return fill(place);
    try {
      const [trace, sensitive] = await Promise.all([
        call("POST /v1/sessions/{id}/explain", { query, namespace: session.namespace }, { part: session.session_id }),
        sensitiveIds(session.namespace),
      ]);
      if (number !== this.number) return;
      took.textContent = `nothing is sent, and nothing counts as used · ${duration(trace.took_ms / 1000)}`;
      fill(place, traceParts(trace, sensitive, this.page, this.topicName));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (number === this.number) fill(place, h("p.warn", `⚠ ${error.message}`));
    }
  }

  // Chat

  drawChat() {
    const said = h("div.said", { role: "log", "aria-label": "Chat" });
    const field = h("textarea", {
      rows: 2,
      dir: "auto",
      "aria-label": "Message",
      placeholder: "Enter sends, Shift Enter begins a line",
    });
    const send = () => {
      const message = field.value.trim();
      if (!message) return;
      field.value = "";
      void this.send(message, said, field);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      send();
    });
    fill(
      this.place,
      h(
        "header.row",
        h("h2.grow", "Chat with this memory"),
        button("Back", "c", () => this.toggleChat(), { class: "plain" }),
      ),
      h("p.meta", "Answered from memories alone. What you say here is remembered as turns of this conversation."),
      said,
      field,
      h("div.actions", h("button.primary", { on: { click: send } }, "Send", h("kbd", "↵"))),
    );
  }

  /** @param {string} message @param {HTMLElement} place @param {HTMLTextAreaElement} field */
  async send(message, place, field) {
    const session = /** @type {Session} */ (this.session);
    const { page } = this;
    const answerPlace = h("div", h("p.meta", { role: "status" }, "asking the memory …"));
    place.append(h("p.mine", h("b", "you"), " ", memoryText(message)), answerPlace);
    answerPlace.scrollIntoView({ block: "nearest" });
    try {
      const answer = await call(
        "POST /v1/sessions/{id}/chat",
        { message, explain: true, namespace: session.namespace },
        { part: session.session_id },
      );
      const sensitive = await sensitiveIds(session.namespace);
      const stored = answer.results.flatMap((each) => (each.outcome === "stored" && each.memory ? [each.memory] : []));
      const outcome = h("span", stored.length ? " · remembered · " : " · nothing new to remember");
      const undo = () =>
        void page.write(async () => {
          for (const each of stored) await call("POST /v1/undo", { seq: each.seq });
          fill(outcome, " · taken back: it is not remembered");
          return { text: "Taken back: it is not remembered" };
        });
      if (stored.length) outcome.append(plainButton("take it back", undo));
      const cite = (/** @type {string} */ id, /** @type {number} */ index) =>
        h("button.cite", { "aria-label": "its memory", on: { click: () => page.set({ id }) } }, String(index + 1));
      const ids = [...new Set(answer.sentences.flatMap((each) => each.ids))];
      fill(
        answerPlace,
        h(
          "p",
          h("b", "memory"),
          " ",
          answer.sentences.length
            ? answer.sentences.map((each) => [
                memoryText(each.text),
                each.ids.map((id) => cite(id, ids.indexOf(id))),
                " ",
              ])
            : memoryText(answer.answer || "The memories do not hold the answer."),
        ),
        h("p.meta", answer.method === "llm" ? "written by the language model" : "quoted, no language model", outcome),
        answer.trace
          ? h(
              "details",
              h("summary", `recalled: ${counted(answer.trace.items.filter((item) => !item.dropped).length, "item")}`),
              traceParts(answer.trace, sensitive, page, this.topicName),
            )
          : null,
      );
      if (stored.length) page.toast("Remembered as a turn of this conversation", undo);
      page.refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(answerPlace, h("p.warn", `⚠ ${error.message}`));
      if (!field.value) field.value = message; // nothing that was typed is lost
    }
    answerPlace.scrollIntoView({ block: "nearest" });
  }
}

/**
 * What is given to the agent, and what is left out with its reason.
 * @param {import("../../../api_types").SessionTrace} trace
 * @param {Set<string>} sensitive
 * @param {Page} page
 * @param {(node: string) => string} topicName
 */
function traceParts(trace, sensitive, page, topicName) {
  if (!trace.items.length) {
    return h(
      "p",
      trace.degraded.includes("vectors")
        ? "Without the embedding model nothing is found by meaning: tiers go by time alone, and the agent gets the ring."
        : "Nothing outside the ring is near this message: the agent gets the ring alone.",
    );
  }
  const given = trace.items.filter((item) => !item.dropped);
  const left = trace.items.filter((item) => item.dropped);
  const row = (/** @type {import("../../../api_types").TieredItemTrace} */ item) =>
    h(
      "li",
      h("span.number", item.score.toFixed(2)),
      h(
        "div.grow",
        item.ids.some((id) => sensitive.has(id))
          ? textOrCover(item.text, true)
          : memoryLink(page, item.ids[0], memoryText(item.text), ".line-clamp-2"),
        h(
          "p.meta",
          item.node ? `topic: ${topicName(item.node)}` : (STAGES[item.stage] ?? item.stage),
          item.dropped
            ? [
                " · ",
                h(
                  "b",
                  `left out: ${item.dropped === "below_sim_threshold" ? `under ${trace.floor.toFixed(2)}` : (DROPPED[item.dropped] ?? item.dropped.replaceAll("_", " "))}`,
                ),
              ]
            : "",
        ),
      ),
    );
  return [
    h("h3", "Given to the agent ", h("span.meta", count(given.length))),
    h("ul.plain-list", given.map(row)),
    left.length
      ? [h("h3", "Left out ", h("span.meta", count(left.length))), h("ul.plain-list.left-out", left.map(row))]
      : null,
  ];
}
