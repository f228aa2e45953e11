// What the memory is about: the tree of topics, its members, and what is talked about together.

import { call } from "../api.js";
import { segments } from "../controls.js";
import { count, counted, memories as memoriesText } from "../format.js";
import { button, fill, h } from "../html.js";
import { commandLine, emptyState, firstSteps, News, readInto, stopReading } from "../part.js";
import { showTogether } from "./topics/together.js";
import { TopicPane } from "./topics/topic_pane.js";
import { keyOf, treeAreas, treeRows, visible } from "./topics/tree.js";

/** @typedef {import("../../api_types").TopicView} Topic */

const TOPICS_FROM = 30; // memories with meaning

/** @type {import("../app.js").View} */
export default { title: "Topics", mount: (place, page) => new Topics(place, page) };

class Topics {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    /** @type {Topic[]} */
    this.topics = [];
    this.tree = { children: /** @type {Map<string, Topic[]>} */ (new Map()), opened: new Set(), chosen: "" };
    this.isCurrent = true;
    this.askedFor = "";
    /** @type {TopicPane | null} */
    this.shown = null;
    this.news = new News(() => void this.read());
    this.summary = h("span.meta", { role: "status" });
    this.choice = segments(
      "How the topics are shown",
      [
        ["tree", "tree"],
        ["areas", "areas"],
      ],
      (value) => page.set({ as: value === "tree" ? null : value }),
    );
    this.rows = h("div.topic-tree", { role: "treegrid", "aria-label": "Topics", tabindex: 0 });
    this.areas = h("div.areas");
    this.foot = h("p.meta.topics-foot");
    this.rest = h("div");
    this.together = h("section");
    this.pane = h("aside.pane", { "aria-label": "The topic" });
    fill(
      place,
      h(
        "div.main-pane",
        h("header", h("h1", "Topics"), this.summary, this.news.place, h("span.grow"), this.choice.place),
        h("div.pane-list", this.rows, this.areas, this.rest),
        this.foot,
      ),
      this.pane,
    );
    for (const each of [this.rows, this.areas])
      each.addEventListener("click", (event) => this.clicked(/** @type {HTMLElement} */ (event.target)));
    const isMirrored = getComputedStyle(place).direction === "rtl";
    /** @type {Record<string, () => void>} */
    this.keys = {
      [isMirrored ? "ArrowLeft" : "ArrowRight"]: () => this.unfold(),
      [isMirrored ? "ArrowRight" : "ArrowLeft"]: () => this.fold(),
      ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1),
      ".": () => void this.read(),
      " ": () => this.shown?.members.check(),
    };
    if (!page.isReadOnly) this.keys.e = () => this.shown?.rename();
    this.resized = new ResizeObserver(() => {
      if (!this.areas.hidden) this.drawAreas();
    });
    this.resized.observe(place);
  }

  /** @param {import("../app.js").Route} route */
  show({ params }) {
    this.choice.show(params.get("as") ?? "tree");
    this.rows.hidden = params.get("as") === "areas";
    this.areas.hidden = !this.rows.hidden;
    if (this.askedFor !== this.page.namespace) {
      this.askedFor = this.page.namespace;
      void this.read();
      void showTogether(this.page, this.together);
    } else {
      this.draw();
    }
    this.showTopic();
  }

  get isInMembers() {
    return this.shown?.members.list.contains(document.activeElement) ?? false;
  }

  current() {
    return this.isInMembers || this.page.card ? (this.shown?.members.current() ?? null) : null;
  }

  open() {
    if (this.isInMembers || this.page.card) return this.shown?.members.open();
    this.shown?.members.list.focus();
    this.shown?.members.step(0);
  }

  back() {
    if (!this.isInMembers) return false;
    this.rows.focus();
    return true;
  }

  refresh() {
    void this.read();
  }

  leave() {
    stopReading(this.rest);
    this.resized.disconnect();
  }

  /** @param {string} name */
  heard(name) {
    if (name === "change") this.news.add(1);
  }

  // Moving in the tree

  /** @param {number} delta */
  step(delta) {
    if (this.isInMembers || this.page.card) return this.shown?.members.step(delta);
    const rows = visible(this.tree);
    const at = rows.findIndex((topic) => keyOf(topic) === this.tree.chosen);
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + delta))];
    if (next) this.choose(next);
  }

  get topic() {
    return this.topics.find((topic) => keyOf(topic) === this.tree.chosen) ?? null;
  }

  /** @param {Topic} topic */
  choose(topic) {
    this.page.set({ topic: keyOf(topic), id: null });
    this.rows.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  unfold() {
    const { topic } = this;
    const below = topic && this.tree.children.get(keyOf(topic));
    if (!topic || !below) return;
    if (this.tree.opened.has(keyOf(topic))) return this.choose(below[0]);
    this.tree.opened.add(keyOf(topic));
    this.draw();
  }

  fold() {
    const { topic } = this;
    if (!topic) return;
    if (this.tree.opened.delete(keyOf(topic))) return this.draw();
    const above = this.pathOf(topic).pop();
    if (above) this.choose(above);
  }

  /**
   * Return the topics above one, the highest first.
   * @param {Topic} topic
   * @returns {Topic[]}
   */
  pathOf(topic) {
    const above = this.topics.find((each) => each.id === topic.parent && each.namespace === topic.namespace);
    return topic.parent && above ? [...this.pathOf(above), above] : [];
  }

  /** @param {HTMLElement} target */
  clicked(target) {
    const row = /** @type {HTMLElement | null} */ (target.closest("[data-topic]"));
    const topic = this.topics.find((each) => keyOf(each) === row?.dataset.topic);
    if (!topic) return;
    if (!target.closest(".twisty")) return this.choose(topic);
    if (!this.tree.opened.delete(keyOf(topic))) this.tree.opened.add(keyOf(topic));
    this.draw();
  }

  // The tree

  async read() {
    this.news.clear();
    await readInto(
      this.page,
      this.rest,
      (signal) => call("GET /v1/topics", { namespace: this.page.namespace }, { signal }),
      ({ topics, current }) => {
        this.topics = topics;
        this.isCurrent = current;
        const { children } = this.tree;
        children.clear();
        for (const topic of topics) {
          const above = topic.parent ? `${topic.namespace}/${topic.parent}` : "";
          children.set(above, [...(children.get(above) ?? []), topic]);
        }
        for (const siblings of children.values()) siblings.sort((one, other) => other.count - one.count);
        this.tree.chosen = "";
        this.showTopic();
        this.draw();
        return topics.length ? null : this.empty();
      },
      "reading the topics",
    );
  }

  /** Memories that no topic has; null where that is not known. */
  get outside() {
    const numbers = this.page.status?.namespaces;
    if (!numbers || this.page.status?.notes.roots.length) return null; // a topic counts the passages of a note as one
    const { namespace } = this.page;
    const all =
      namespace === "*"
        ? Object.values(numbers).reduce((sum, each) => sum + each, 0)
        : (numbers[namespace] ?? 0) + (namespace === "default" ? 0 : (numbers.default ?? 0));
    return Math.max(0, all - (this.tree.children.get("") ?? []).reduce((sum, topic) => sum + topic.count, 0));
  }

  draw() {
    const levels = new Set(this.topics.map((topic) => topic.level)).size;
    fill(this.summary, this.topics.length ? `${count(this.topics.length)} in ${counted(levels, "level")}` : "");
    fill(this.rows, treeRows(this.tree, this.outside));
    const selected = this.rows.querySelector("[aria-selected=true]");
    if (selected) this.rows.setAttribute("aria-activedescendant", selected.id);
    if (!this.areas.hidden) this.drawAreas();
    this.drawFoot();
  }

  drawAreas() {
    fill(this.areas, treeAreas(this.tree, this.areas.clientWidth));
  }

  drawFoot() {
    if (!this.topics.length) return fill(this.foot);
    const [own, named] = ["user", "llm:"].map(
      (method) => this.topics.filter((topic) => topic.method.startsWith(method)).length,
    );
    fill(
      this.foot,
      own ? `${count(own)} named by you. ` : "",
      named ? `${count(named)} named by the language model. ` : "Names from their words, no language model. ",
      this.isCurrent ? "" : "It is being brought up to date. ",
      this.buildButton("Build again", "The topics are being built again; names that still fit are kept", "plain"),
    );
  }

  /**
   * @param {string} label
   * @param {string} text what is said when it has begun
   * @param {string} kind
   */
  buildButton(label, text, kind = "") {
    const build = () =>
      this.page.write(async () => {
        await call("POST /v1/topics/rebuild", { namespace: this.page.oneNamespace ?? "default" });
        return { text };
      });
    return this.page.isReadOnly ? null : button(label, "", () => void build(), { class: kind });
  }

  empty() {
    const vectors = this.page.status?.views.vectors;
    if (this.page.status?.models.embedding?.state !== "ready") {
      return emptyState(
        "There are no topics without an embedding model",
        "Topics are memories that lie close in meaning, and meaning comes from the model.",
        commandLine("Get the model:", "mnemo models pull all-MiniLM-L6-v2"),
      );
    }
    return emptyState(
      "There are no topics yet",
      `Topics appear after about ${TOPICS_FROM} memories with meaning${vectors ? `; ${memoriesText(vectors.items)} have a vector now` : ""}.`,
      firstSteps()[0],
      this.buildButton("Build now", "The topics are being built"),
    );
  }

  // The topic

  showTopic() {
    const asked = this.page.route.params.get("topic");
    const topic =
      this.topics.find((each) => keyOf(each) === asked) ??
      (asked ? null : ((this.tree.children.get("") ?? [])[0] ?? null));
    const key = topic ? keyOf(topic) : "";
    if (key === this.tree.chosen && key) return;
    this.tree.chosen = key;
    const path = topic ? this.pathOf(topic) : [];
    for (const above of path) this.tree.opened.add(keyOf(above));
    this.draw();
    const below = this.tree.children.get(key)?.length ?? 0;
    this.shown = topic && new TopicPane(this.page, topic, path, below, (each) => this.choose(each));
    const isLost = asked && !topic && this.topics.length > 0;
    fill(
      this.pane,
      this.shown?.place,
      isLost
        ? h("p.note-line", "This topic is no longer there: its members went to others when the tree was built again.")
        : null,
      this.together,
    );
  }
}
