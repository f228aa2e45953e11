// What the memory is about: the tree of topics, its members, and what is talked about together.

import { ApiError, call } from "../api.js";
import { emptyState, saySlow, segments, withTable } from "../controls.js";
import { count, counted, memories as memoriesText } from "../format.js";
import { drawGraph, graphTable } from "../graph.js";
import { button, fill, h } from "../html.js";
import { excerpt, memoryList, memoryRow, metaLine } from "../memory.js";
import { monthBars } from "../month_bars.js";
import { treemap } from "../treemap.js";

/** @typedef {import("../app.js").Page} Page */
/** @typedef {import("../app.js").Route} Route */
/** @typedef {import("../../api_types").TopicView} Topic */
/** @typedef {import("../../api_types").GraphAnswer} GraphAnswer */

const STANDING = 5; // memories that stand for a topic
const MEMBERS = 50; // more of them at a time
const NODES = 300;
const TOPICS_FROM = 30; // memories with meaning
const NAMED_AREA = 34; // px: the least height of an area that has a name
const AREA_HEIGHT = 560;

/** @type {import("../app.js").View} */
export default {
  title: "Topics",
  mount: (place, page) => new Topics(place, page),
};

/** @param {Topic} topic */
const keyOf = (topic) => `${topic.namespace}/${topic.id}`;

class Topics {
  /**
   * @param {HTMLElement} place
   * @param {Page} page
   */
  constructor(place, page) {
    this.page = page;
    /** @type {Topic[]} */
    this.topics = [];
    /** @type {Map<string, Topic[]>} by the key of what is above them */
    this.children = new Map();
    this.isCurrent = true;
    /** @type {Set<string>} */
    this.opened = new Set();
    this.askedFor = "";
    this.shownTopic = "";
    this.newCount = 0;
    /** @type {AbortController | null} */
    this.reading = null;
    /** @type {string | null} */
    this.cursor = null;
    /** @type {string} a node of the graph */
    this.node = "";
    this.graphPlace = h("section", {});
    /** @type {HTMLElement | null} */
    this.title = null;
    /** @type {HTMLElement | null} */
    this.more = null;
    this.months = h("div", {});
    this.summary = h("span", { class: "meta", role: "status" });
    this.choice = segments(
      "How the topics are shown",
      [
        ["tree", "tree"],
        ["areas", "areas"],
      ],
      (value) => page.set({ as: value === "tree" ? null : value }),
    );
    this.tree = h("div", { class: "topic-tree", role: "treegrid", "aria-label": "Topics", tabindex: 0 });
    this.areas = h("div", { class: "areas" });
    this.foot = h("p", { class: "meta topics-foot" });
    this.rest = h("div", {});
    this.pane = h("aside", { class: "pane", "aria-label": "The topic" });
    this.members = memoryList(page, "Members of the topic");
    fill(
      place,
      h(
        "div",
        { class: "main-pane" },
        h("header", {}, h("h1", {}, "Topics"), this.summary, h("span", { class: "grow" }), this.choice.place),
        h("div", { class: "pane-list" }, this.tree, this.areas, this.rest),
        this.foot,
      ),
      this.pane,
    );
    this.tree.addEventListener("click", (event) => this.clicked(/** @type {HTMLElement} */ (event.target)));
    this.areas.addEventListener("click", (event) => this.clicked(/** @type {HTMLElement} */ (event.target)));
    const isMirrored = getComputedStyle(place).direction === "rtl";
    /** @type {Record<string, () => void>} */
    this.keys = {
      [isMirrored ? "ArrowLeft" : "ArrowRight"]: () => this.unfold(),
      [isMirrored ? "ArrowRight" : "ArrowLeft"]: () => this.fold(),
      ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1),
      ".": () => void this.read(),
      " ": () => this.members.check(),
    };
    if (!page.isReadOnly) this.keys.e = () => this.rename();
    this.resized = new ResizeObserver(() => {
      if (!this.areas.hidden) this.drawAreas();
    });
    this.resized.observe(place);
  }

  /** @param {Route} route */
  show(route) {
    const { params } = route;
    this.choice.show(params.get("as") ?? "tree");
    this.tree.hidden = params.get("as") === "areas";
    this.areas.hidden = !this.tree.hidden;
    if (this.askedFor !== this.page.namespace) {
      this.askedFor = this.page.namespace;
      void this.read();
      void this.readGraph();
    } else {
      this.draw();
    }
    this.showTopic();
  }

  get isInMembers() {
    return this.members.list.contains(document.activeElement);
  }

  current() {
    return this.isInMembers || this.page.card ? this.members.current() : null;
  }

  open() {
    if (this.isInMembers || this.page.card) return this.members.open();
    this.members.list.focus();
    this.members.step(0);
  }

  back() {
    if (!this.isInMembers) return false;
    this.tree.focus();
    return true;
  }

  refresh() {
    void this.read();
  }

  leave() {
    this.reading?.abort();
    this.resized.disconnect();
  }

  /** @param {string} name */
  heard(name) {
    if (name !== "change") return;
    this.newCount += 1;
    this.drawSummary();
  }

  // Moving in the tree

  /** The topics that are seen, in their order. */
  visible() {
    /** @type {Topic[]} */
    const rows = [];
    const walk = (/** @type {string} */ above) => {
      for (const topic of this.children.get(above) ?? []) {
        rows.push(topic);
        if (this.opened.has(keyOf(topic))) walk(keyOf(topic));
      }
    };
    walk("");
    return rows;
  }

  /** @param {number} delta */
  step(delta) {
    if (this.isInMembers || this.page.card) return this.members.step(delta);
    const rows = this.visible();
    const at = rows.findIndex((topic) => keyOf(topic) === this.shownTopic);
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + delta))];
    if (next) this.choose(next);
  }

  get topic() {
    return this.topics.find((topic) => keyOf(topic) === this.shownTopic) ?? null;
  }

  /** @param {Topic} topic */
  choose(topic) {
    this.page.set({ topic: keyOf(topic), id: null });
    this.tree.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  unfold() {
    const { topic } = this;
    const below = topic && this.children.get(keyOf(topic));
    if (!topic || !below) return;
    if (this.opened.has(keyOf(topic))) return this.choose(below[0]);
    this.opened.add(keyOf(topic));
    this.draw();
  }

  fold() {
    const { topic } = this;
    if (!topic) return;
    if (this.opened.delete(keyOf(topic))) return this.draw();
    const above = this.above(topic);
    if (above) this.choose(above);
  }

  /** @param {Topic} topic */
  above(topic) {
    return topic.parent
      ? this.topics.find((each) => each.id === topic.parent && each.namespace === topic.namespace)
      : undefined;
  }

  /** @param {HTMLElement} target */
  clicked(target) {
    const row = /** @type {HTMLElement | null} */ (target.closest("[data-topic]"));
    const topic = this.topics.find((each) => keyOf(each) === row?.dataset.topic);
    if (!topic) return;
    if (target.closest(".twisty")) {
      if (!this.opened.delete(keyOf(topic))) this.opened.add(keyOf(topic));
      return this.draw();
    }
    this.choose(topic);
  }

  // The tree

  async read() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.newCount = 0;
    const spoken = saySlow(this.rest, "reading the topics …");
    try {
      const { topics, current } = await call(
        "GET /v1/topics",
        { namespace: this.page.namespace },
        { signal: reading.signal },
      );
      this.topics = topics;
      this.isCurrent = current;
      this.children = new Map();
      for (const topic of topics) {
        const above = topic.parent ? `${topic.namespace}/${topic.parent}` : "";
        const beside = this.children.get(above);
        if (beside) beside.push(topic);
        else this.children.set(above, [topic]);
      }
      for (const beside of this.children.values()) beside.sort((one, other) => other.count - one.count);
      this.draw();
      this.shownTopic = "";
      this.showTopic();
    } catch (error) {
      if (error instanceof DOMException) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.isGone) return this.page.noteDaemon(false);
      fill(
        this.rest,
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

  /** Memories that no topic has; null where that is not known. */
  get outside() {
    const numbers = this.page.status?.namespaces;
    if (!numbers || this.page.status?.notes.roots.length) return null; // a topic counts the passages of a note as one
    const { namespace } = this.page;
    const all =
      namespace === "*"
        ? Object.values(numbers).reduce((sum, each) => sum + each, 0)
        : (numbers[namespace] ?? 0) + (namespace === "default" ? 0 : (numbers.default ?? 0));
    return Math.max(0, all - (this.children.get("") ?? []).reduce((sum, topic) => sum + topic.count, 0));
  }

  draw() {
    this.drawSummary();
    const rows = this.visible();
    fill(this.rest, rows.length ? null : this.empty());
    const most = Math.max(1, this.outside ?? 0, ...this.topics.map((topic) => topic.count));
    const names = new Set(this.topics.map((topic) => topic.namespace)).size;
    const { outside } = this;
    fill(
      this.tree,
      rows.length
        ? h(
            "div",
            { role: "row", class: "topic-row head" },
            h("span", { role: "columnheader", class: "grow" }, "name"),
            h("span", { role: "columnheader", class: "topic-meter" }, "memories"),
            h("span", { role: "columnheader", class: "number hidden" }, "number"),
          )
        : null,
      rows.map((topic) => this.row(topic, most, names > 1)),
      rows.length && outside
        ? h(
            "div",
            { role: "row", class: "topic-row" },
            h("span", { role: "gridcell", class: "topic-name grow outside" }, h("b", {}, "no topic")),
            meterCell(outside, most),
            h("span", { role: "gridcell", class: "number" }, count(outside)),
          )
        : null,
    );
    const selected = this.tree.querySelector("[aria-selected=true]");
    if (selected) this.tree.setAttribute("aria-activedescendant", selected.id);
    if (!this.areas.hidden) this.drawAreas();
    this.drawFoot();
  }

  /**
   * @param {Topic} topic
   * @param {number} most
   * @param {boolean} hasNamespaces topics of several are shown
   */
  row(topic, most, hasNamespaces) {
    const key = keyOf(topic);
    const isParent = this.children.has(key);
    const isOpen = this.opened.has(key);
    return h(
      "div",
      {
        role: "row",
        class: "topic-row",
        id: `topic-${key}`,
        "data-topic": key,
        "aria-level": topic.level + 1,
        "aria-selected": String(key === this.shownTopic),
        "aria-expanded": isParent ? String(isOpen) : null,
      },
      h(
        "span",
        {
          role: "gridcell",
          class: "topic-name grow",
          style: { "padding-inline-start": `${8 + 20 * topic.level}px` },
          title: topic.name,
        },
        h("span", { class: "twisty", "aria-hidden": "true" }, isParent ? (isOpen ? "▾" : "▸") : ""),
        h(topic.level ? "span" : "b", { dir: "auto" }, topic.name),
        hasNamespaces && !topic.level && topic.namespace !== "default"
          ? h("span", { class: "badge" }, topic.namespace)
          : null,
      ),
      meterCell(topic.count, most),
      h("span", { role: "gridcell", class: "number" }, count(topic.count)),
    );
  }

  drawSummary() {
    const levels = new Set(this.topics.map((topic) => topic.level)).size;
    fill(
      this.summary,
      this.topics.length ? `${count(this.topics.length)} in ${counted(levels, "level")}` : "",
      this.newCount ? button(`${count(this.newCount)} new`, ".", () => void this.read(), { class: "new" }) : null,
    );
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
      this.page.isReadOnly
        ? null
        : button(
            "Build again",
            "",
            () =>
              void this.page.write(async () => {
                await call("POST /v1/topics/rebuild", { namespace: this.page.oneNamespace ?? "default" });
                return { text: "The topics are being built again; names that still fit are kept" };
              }),
            { class: "plain" },
          ),
    );
  }

  empty() {
    const vectors = this.page.status?.views.vectors;
    const hasModel = this.page.status?.models.embedding?.state === "ready";
    if (!hasModel) {
      return emptyState(
        "There are no topics without an embedding model",
        "Topics are memories that lie close in meaning, and meaning comes from the model.",
        [["Get the model:", "mnemo models pull all-MiniLM-L6-v2"]],
      );
    }
    return emptyState(
      "There are no topics yet",
      `Topics appear after about ${TOPICS_FROM} memories with meaning${vectors ? `; ${memoriesText(vectors.items)} have a vector now` : ""}.`,
      [["Have a folder of notes remembered:", "mnemo notes add ~/notes"]],
      this.page.isReadOnly
        ? null
        : button(
            "Build now",
            "",
            () =>
              void this.page.write(async () => {
                await call("POST /v1/topics/rebuild", { namespace: this.page.oneNamespace ?? "default" });
                return { text: "The topics are being built" };
              }),
          ),
    );
  }

  drawAreas() {
    const box = { x: 0, y: 0, width: this.areas.clientWidth, height: AREA_HEIGHT };
    const roots = (this.children.get("") ?? []).filter((topic) => topic.count > 0);
    fill(this.areas, this.areasIn(roots, box, 0));
  }

  /**
   * @param {Topic[]} topics
   * @param {import("../treemap.js").Box} box
   * @param {number} level
   * @returns {HTMLElement[]}
   */
  areasIn(topics, box, level) {
    const boxes = treemap(
      topics.map((topic) => topic.count),
      box,
    );
    return topics.flatMap((topic, index) => {
      const each = boxes[index];
      const hasName = each.height >= NAMED_AREA && each.width >= 48;
      const area = h(
        "div",
        {
          class: `area level-${level}`,
          "data-topic": keyOf(topic),
          "aria-hidden": "true",
          title: `${topic.name}: ${count(topic.count)}`,
          "aria-selected": String(keyOf(topic) === this.shownTopic),
          style: {
            "inset-inline-start": `${each.x}px`,
            top: `${each.y}px`,
            width: `${Math.max(1, each.width - 2)}px`,
            height: `${Math.max(1, each.height - 2)}px`,
          },
        },
        hasName
          ? h(
              "span",
              { class: "area-name", dir: "auto" },
              topic.name,
              " ",
              h("span", { class: "meta" }, count(topic.count)),
            )
          : null,
      );
      const below = (this.children.get(keyOf(topic)) ?? []).filter((child) => child.count > 0);
      const isDeep = level < 1 && below.length > 1 && each.width > 90 && each.height > 90;
      return isDeep
        ? [
            area,
            ...this.areasIn(
              below,
              { x: each.x + 4, y: each.y + 26, width: each.width - 10, height: each.height - 32 },
              level + 1,
            ),
          ]
        : [area];
    });
  }

  // The topic

  showTopic() {
    const asked = this.page.route.params.get("topic");
    const topic =
      this.topics.find((each) => keyOf(each) === asked) ?? (asked ? null : ((this.children.get("") ?? [])[0] ?? null));
    const key = topic ? keyOf(topic) : "";
    if (key === this.shownTopic && key) return;
    this.shownTopic = key;
    for (let above = topic && this.above(topic); above; above = this.above(above)) this.opened.add(keyOf(above));
    if (this.topics.length) this.draw();
    if (topic) void this.readTopic(topic);
    else
      this.drawPane(
        asked && this.topics.length
          ? h(
              "p",
              { class: "note-line" },
              "This topic is no longer there: its members went to others when the tree was built again.",
            )
          : null,
      );
  }

  /** @param {Topic} topic */
  async readTopic(topic) {
    this.members = memoryList(this.page, "Members of the topic");
    const path = [];
    for (let above = this.above(topic); above; above = this.above(above)) path.unshift(above);
    const below = this.children.get(keyOf(topic))?.length ?? 0;
    this.more = h("p", {});
    this.months = h("div", {});
    this.title = h(
      "div",
      { class: "view-head" },
      h("h2", { class: "pane-title text", dir: "auto" }, topic.name),
      h("span", { class: "grow" }),
      this.page.isReadOnly ? null : button("Rename", "e", () => this.rename()),
    );
    this.drawPane(
      this.title,
      h(
        "p",
        { class: "meta" },
        path.map((above) => [button(above.name, "", () => this.choose(above), { class: "plain", dir: "auto" }), " › "]),
        [topic.id, memoriesText(topic.count), below ? `${counted(below, "topic")} below` : ""]
          .filter(Boolean)
          .join(" · "),
      ),
      this.months,
      h("section", {}, h("h3", {}, "What stands for it"), this.members.list, this.more),
    );
    this.cursor = null;
    await this.readMembers(topic, STANDING);
  }

  /**
   * @param {Topic} topic
   * @param {number} limit
   */
  async readMembers(topic, limit) {
    try {
      const { topics } = await call("POST /v1/topics/expand", {
        ids: [topic.id],
        limit,
        cursor: this.cursor,
        namespace: topic.namespace,
        sort: "nearest",
        months: !this.cursor,
      });
      if (keyOf(topic) !== this.shownTopic || !topics[0]) return;
      const { memories, nearness, months } = topics[0];
      if (!this.cursor) fill(this.months, monthBars(months));
      this.cursor = topics[0].cursor;
      this.members.list.append(
        ...memories.map((memory, index) =>
          memoryRow(
            memory,
            {},
            h("div", { class: "body" }, excerpt(memory), metaLine(memory)),
            h(
              "span",
              { class: "score", title: "how near it lies to the middle of the topic" },
              (nearness[index] ?? 0).toFixed(2),
            ),
          ),
        ),
      );
      this.members.keep();
      const left = topic.count - this.members.list.childElementCount;
      if (this.more)
        fill(
          this.more,
          this.cursor && left > 0
            ? button(
                left > MEMBERS ? `${MEMBERS} more of ${count(topic.count)}` : `All ${count(topic.count)}`,
                "",
                () => void this.readMembers(topic, MEMBERS),
                { class: "plain" },
              )
            : null,
        );
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  rename() {
    const { topic } = this;
    if (!topic || !this.title) return;
    const field = h("input", {
      type: "text",
      value: topic.name,
      "aria-label": "Name of the topic; none for the one that the daemon gives",
      maxlength: 80,
      dir: "auto",
    });
    const form = h(
      "form",
      {
        class: "row prompt",
        on: {
          submit: (/** @type {Event} */ event) => {
            event.preventDefault();
            form.remove();
            void this.page.write(() => renameTopic(topic, field.value.trim()));
          },
        },
      },
      h("span", { class: "grow" }, field),
      h("button", { class: "primary" }, "Save"),
    );
    this.title.after(form);
    field.select();
  }

  /** @param {...import("../html.js").Children} children */
  drawPane(...children) {
    fill(this.pane, ...children, this.graphPlace);
  }

  // What is talked about together

  async readGraph() {
    try {
      const graph = await call("GET /v1/graph", {
        namespace: this.page.namespace,
        relation: "co_occurs",
        limit: NODES,
      });
      await this.drawTogether(graph);
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  /** @param {GraphAnswer} graph */
  async drawTogether(graph) {
    const place = this.graphPlace;
    const head = h("h3", { class: "grow" }, "What is talked about together");
    if (!graph.nodes.length) {
      return fill(
        place,
        head,
        h(
          "p",
          { class: "meta" },
          "Nothing yet: this grows from conversations that agents have recorded, as what they talk about is recalled together.",
        ),
      );
    }
    const nodes = graph.nodes.map((node) => ({
      id: node.id,
      name: node.label || "(no words of it may be shown)",
      size: node.members,
    }));
    const edges = graph.edges.map((edge) => ({ from: edge.source, to: edge.target, weight: edge.weight }));
    const picture = h("div", { class: "graph-place" });
    const table = withTable(picture, () =>
      graphTable(nodes, edges, ["about", "turns", "talked about together with (times)"]),
    );
    const said = h("p", { class: "meta", role: "status" });
    const draw = async () => {
      const left = await drawGraph(picture, nodes, edges, {
        label: `${count(nodes.length)} topics of conversations, ${counted(edges.length, "pair")} talked about together`,
        selected: this.node,
        choose: (id) => {
          this.node = this.node === id ? "" : id;
          void draw().catch((error) => this.page.fail(error));
        },
      });
      const chosen = nodes.find((node) => node.id === this.node);
      const others = edges.filter((edge) => chosen && (edge.from === chosen.id || edge.to === chosen.id)).length;
      fill(
        said,
        chosen
          ? [
              h("b", { dir: "auto" }, chosen.name),
              ` · ${counted(chosen.size, "turn")} · together with ${count(others)} others`,
            ]
          : [
              edges.length ? "" : "No two were recalled together yet. ",
              left || graph.total > nodes.length
                ? `The ${count(nodes.length - left)} with most connections of ${count(graph.total)}. `
                : "",
              "Size: turns; width: times together.",
            ],
      );
    };
    fill(place, h("div", { class: "row" }, head, table.toggle), picture, table.place, said);
    await draw();
  }
}

/**
 * Give a topic a name of one's own; none at all gives it back to the daemon.
 * @param {Topic} topic
 * @param {string} name
 */
async function renameTopic(topic, name) {
  const { seq, topic: after } = await call(
    "POST /v1/topics/{id}/rename",
    { name: name || null, namespace: topic.namespace },
    { part: topic.id },
  );
  return { text: `${topic.name} is now ${after.name}`, undo: seq ? () => call("POST /v1/undo", { seq }) : null };
}

/**
 * @param {number} value
 * @param {number} most
 */
function meterCell(value, most) {
  return h(
    "span",
    { class: "topic-meter", role: "gridcell", "aria-hidden": "true" },
    h("span", { class: "meter" }, h("i", { style: { width: `${Math.max(value ? 1 : 0, (100 * value) / most)}%` } })),
  );
}
