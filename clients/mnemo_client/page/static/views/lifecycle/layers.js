// The layers as columns: what the next cycle would do with each memory, and why.

import { call } from "../../api.js";
import { count, dotted } from "../../format.js";
import { button, fill, h, plainButton } from "../../html.js";
import { excerpt, memoryList, memoryRow, move, restore, sensitiveIds, textOrCover } from "../../memory.js";
import { ifKnown, readInto, Rows } from "../../part.js";
import { cycleRow } from "./cycles.js";

/** @typedef {"buffer" | "working" | "core" | "archive"} LayerName */
/** @typedef {{total: number, outcomes: Record<string, number>}} Sums */

/**
 * A memory with what becomes of it; without a forecast `outcome` is "".
 * @typedef {{id: string, text: HTMLElement, strength: number, outcome: string, to: string, reason: string, then: number | null, pinned: boolean, proposed: string | null}} Item
 */

const FIRST = 8;
const MORE = 25;
const CYCLES_SHOWN = 3;

/** @type {[LayerName, string, string][]} */
const LAYERS = [
  ["buffer", "Buffer", "what came in lately; 200 a namespace at most"],
  ["working", "Working", "what is in use; forgets nothing"],
  ["core", "Core", "kept for good, and given to agents first"],
  ["archive", "Archive", "found when asked for, ranked lower, never given unasked"],
];

/**
 * Ask what the next cycle would do; null where the daemon does not know it.
 * @param {import("../../../api_types").ForecastQuery} request
 */
export const askForecast = (request) => ifKnown(call("GET /v1/lifecycle", request));

export class LayersTab {
  /** @param {import("../../app.js").Page} page */
  constructor(page) {
    this.page = page;
    this.news = 0;
    this.line = h("div.list-note.row", { role: "status" });
    this.columns = LAYERS.map(([name, title, purpose]) => new Column(this, name, title, purpose));
    this.active = this.columns[0];
    this.activate(this.active);
    this.cycles = h("div", { role: "group", "aria-label": "What the last cycles did" });
    this.cycleRows = new Rows(this.cycles);
    this.place = h(
      "div",
      this.line,
      h(
        "div.layers",
        this.columns.map((column) => column.place),
      ),
      h(
        "section.last-cycles",
        h(
          "header.row",
          h("h2.grow", "What the last cycles did"),
          plainButton("All cycles", () => page.go("lifecycle/cycles")),
        ),
        this.cycles,
      ),
    );
    this.keys = { ArrowLeft: () => this.beside(-1), ArrowRight: () => this.beside(1), ".": () => this.read() };
  }

  /** The ids of sensitive memories: a forecast has texts, but not their tags. */
  sensitive() {
    this.readSensitive ??= sensitiveIds(this.page.namespace);
    return this.readSensitive;
  }

  /** @type {Promise<Set<string>> | undefined} */
  readSensitive = undefined;

  read() {
    this.news = 0;
    this.readSensitive = undefined;
    this.drawLine();
    for (const column of this.columns) void column.read();
    if (this.cycles.querySelector(".undo-plan")) return;
    void readInto(
      this.page,
      this.cycles,
      () => call("GET /v1/consolidate/history", { limit: CYCLES_SHOWN }),
      ({ cycles }) => {
        this.cycles.setAttribute("role", cycles.length ? "list" : "group");
        if (cycles.length) return cycles.map((cycle) => cycleRow(this.page, cycle));
        return h("p.meta", "No cycle has run yet. One begins half an hour after something happened, or with Run now.");
      },
    ).then(() => this.cycleRows.keep());
  }

  /** @param {Record<LayerName, Sums> | null} layers @param {boolean} isModelAsked */
  drawSums(layers, isModelAsked) {
    if (!layers) return;
    const out = (/** @type {LayerName} */ name, /** @type {string[]} */ outcomes) =>
      outcomes.reduce((sum, each) => sum + (layers[name].outcomes[each] ?? 0), 0);
    const enters = {
      buffer: 0,
      working: out("buffer", ["promote"]) + out("core", ["demote"]),
      core: out("working", ["promote"]),
      archive: out("buffer", ["archive"]) + out("working", ["archive"]) + out("core", ["archive"]),
    };
    for (const column of this.columns) {
      const leaves = Object.values(layers[column.name].outcomes).reduce((sum, each) => sum + each, 0);
      column.drawSum(layers[column.name].total, enters[column.name], leaves);
    }
    this.note = isModelAsked
      ? "The rules alone were asked; a cycle may ask the language model too, which may decide otherwise."
      : "";
    this.drawLine();
  }

  note = "";

  drawLine() {
    fill(
      this.line,
      this.note ? h("span.meta", this.note) : null,
      this.news ? button(`${count(this.news)} new`, ".", () => this.read(), { class: "new" }) : null,
    );
  }

  /** @param {string} name @param {any} data */
  heard(name, data) {
    if (name !== "change") return;
    this.news += data.memories?.length ?? 1;
    this.drawLine();
  }

  /** @param {Column} column */
  activate(column) {
    this.active = column;
    for (const each of this.columns) each.place.classList.toggle("active", each === column);
  }

  /** @param {number} delta */
  beside(delta) {
    const at = this.columns.indexOf(this.active);
    this.activate(this.columns[Math.min(this.columns.length - 1, Math.max(0, at + delta))]);
    this.active.list.list.focus();
  }

  current() {
    return this.active.list.current();
  }
  /** @param {number} delta */
  step(delta) {
    this.active.list.step(delta);
  }
  open() {
    this.active.list.open();
  }
}

class Column {
  /**
   * @param {LayersTab} tab
   * @param {LayerName} name
   * @param {string} title
   * @param {string} purpose
   */
  constructor(tab, name, title, purpose) {
    this.tab = tab;
    this.page = tab.page;
    this.name = name;
    this.figure = h("span.figure", "");
    this.next = h("p.next");
    this.list = memoryList(tab.page, title);
    this.more = h("div");
    this.shown = FIRST;
    /** @type {HTMLElement} */
    this.place = h(
      "section.layer",
      { "aria-label": title },
      h("header", h("h2", title), this.figure),
      h("p.meta", purpose),
      this.next,
      this.list.list,
      this.more,
    );
    this.place.addEventListener("pointerdown", () => tab.activate(this));
    this.list.list.addEventListener("focus", () => tab.activate(this));
    if (!tab.page.isReadOnly) this.takeDrops(name);
  }

  /** @param {"buffer" | "working" | "core" | "archive"} name */
  takeDrops(name) {
    this.place.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.place.classList.add("target");
    });
    this.place.addEventListener("dragleave", () => this.place.classList.remove("target"));
    this.place.addEventListener("drop", (event) => {
      event.preventDefault();
      this.place.classList.remove("target");
      const [from, id] = (event.dataTransfer?.getData("text/plain") ?? "").split(" ");
      if (!id || from === this.name) return;
      void (from === "archive"
        ? restore(this.page, id)
        : move(this.page, id, name === "archive" ? { archived: true } : { layer: name }));
    });
  }

  async read() {
    await readInto(
      this.page,
      this.list.list,
      () => this.asked(null, this.shown),
      ({ items, cursor, layers, isModelAsked, total }) => {
        this.tab.drawSums(layers, isModelAsked);
        if (!layers) this.drawSum(total, null, null);
        this.drawMore(cursor, items.length, total);
        return this.rows(items, layers !== null, total);
      },
    );
    this.list.keep();
  }

  /** @param {string | null} cursor @param {number} limit */
  async asked(cursor, limit) {
    const { namespace } = this.page;
    const forecast = await askForecast({ layer: this.name, namespace, limit, cursor });
    if (forecast) {
      const sensitive = await this.tab.sensitive();
      return {
        items: forecast.memories.map((each) => ofForecast(each, sensitive.has(each.id))),
        cursor: forecast.cursor,
        layers: forecast.layers,
        isModelAsked: forecast.model,
        total: forecast.layers[this.name].total,
      };
    }
    const isArchive = this.name === "archive";
    const [page, state] = await Promise.all([
      call("GET /v1/memories", {
        namespace,
        limit,
        cursor,
        ...(isArchive ? { state: ["archived"] } : { layer: [/** @type {any} */ (this.name)], state: ["active"] }),
      }),
      call("GET /v1/state", { namespace }),
    ]);
    /** @type {Item[]} */
    const items = page.memories.map((each) => ({
      id: each.id,
      text: excerpt(each),
      strength: each.strength,
      outcome: "",
      to: "",
      reason: each.pinned ? "pinned" : "",
      then: null,
      pinned: each.pinned,
      proposed: null,
    }));
    const total = isArchive
      ? (this.page.status?.by_state.archived ?? 0)
      : state.layers[/** @type {"buffer"} */ (this.name)];
    return { items, cursor: page.cursor, layers: null, isModelAsked: false, total };
  }

  /** @param {number} total @param {number | null} enters @param {number | null} leaves */
  drawSum(total, enters, leaves) {
    this.figure.textContent = count(total);
    const parts = [
      enters ? `${count(enters)} ${enters === 1 ? "enters" : "enter"}` : "",
      leaves ? `${count(leaves)} ${leaves === 1 ? "leaves" : "leave"}` : "",
    ].filter(Boolean);
    fill(
      this.next,
      "next cycle: ",
      enters === null
        ? h(
            "span",
            { title: "this daemon does not say what its next cycle would do with each memory" },
            "see Preview in full",
          )
        : h("b", parts.join(", ") || "nothing moves"),
    );
    this.stays = total - (leaves ?? 0);
    this.leaves = leaves;
  }

  stays = 0;
  /** @type {number | null} */
  leaves = null;

  /** @param {Item[]} items @param {boolean} isForecast @param {number} total */
  rows(items, isForecast, total) {
    if (!total) return h("p.meta.nothing", EMPTY[this.name]);
    const moving = items.filter((each) => each.outcome && each.outcome !== "stay");
    const staying = items.filter((each) => !moving.includes(each));
    return [
      moving.map((each) => this.row(each)),
      isForecast && staying.length
        ? h("p.meta.stay", { role: "presentation" }, `${count(this.stays)} ${this.stays === 1 ? "stays" : "stay"}`)
        : null,
      staying.map((each) => this.row(each)),
    ];
  }

  /** @param {Item} item */
  row(item) {
    const word =
      item.pinned && item.outcome !== "promote"
        ? "pinned"
        : item.outcome === "stay"
          ? "stays"
          : item.outcome
            ? `→ ${item.to}`
            : "";
    const fades = item.then !== null && item.outcome === "stay" && item.strength - item.then >= 0.005;
    const why = dotted(
      item.reason,
      fades && item.then !== null ? `fades to ${item.then.toFixed(2)}` : "",
      item.proposed ? `${item.proposed} waits for you` : "",
    );
    const isDraggable = !this.page.isReadOnly;
    return memoryRow(
      /** @type {any} */ (item),
      {
        class: "fate",
        draggable: isDraggable ? "true" : null,
        on: isDraggable
          ? {
              dragstart: (/** @type {DragEvent} */ event) =>
                event.dataTransfer?.setData("text/plain", `${this.name} ${item.id}`),
            }
          : {},
      },
      h(
        "div.body",
        item.text,
        h(
          "div.fate-line",
          word ? h("b", { class: word.startsWith("→") ? "moves" : "" }, word) : null,
          h("span.meta.why", why),
          h(
            "span.meter",
            { title: "strength" },
            h("i", { style: { width: `${Math.round(100 * Math.min(1, Math.max(0, item.strength)))}%` } }),
          ),
          h("span.meta.number", h("span.hidden", "strength "), item.strength.toFixed(2)),
        ),
      ),
    );
  }

  /** @param {string | null} cursor @param {number} shown @param {number} total */
  drawMore(cursor, shown, total) {
    fill(
      this.more,
      cursor
        ? [
            plainButton(`${count(Math.min(MORE, total - shown))} more`, () => {
              this.shown = shown + MORE;
              void this.read();
            }),
            h("span.meta", ` the first ${count(shown)} of ${count(total)}`),
          ]
        : null,
    );
  }
}

/** @type {Record<LayerName, string>} */
const EMPTY = {
  buffer: "Nothing waits here. What is remembered comes in here first.",
  working: "Nothing is in use yet. What is recalled often, and notes, come here.",
  core: "Nothing is kept for good yet. Pin what an agent must always know (p), or let cycles lift what is used.",
  archive: "Nothing has faded yet.",
};

/**
 * @param {import("../../../api_types").MemoryForecastView} each
 * @param {boolean} isSensitive
 * @returns {Item}
 */
function ofForecast(each, isSensitive) {
  /** @type {Record<string, string>} */
  const places = { archived: "archive", superseded: "history", compressed: "its summary", trashed: "trash" };
  return {
    id: each.id,
    text: textOrCover(each.text, isSensitive),
    strength: each.strength,
    outcome: each.outcome,
    to: places[each.state_then] ?? each.layer_then,
    reason: each.reason,
    then: each.strength_then,
    pinned: each.pinned,
    proposed: each.proposed,
  };
}
