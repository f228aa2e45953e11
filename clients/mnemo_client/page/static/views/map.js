// What lies together: every memory as a point where its meaning puts it.

import { ApiError, call } from "../api.js";
import { segments } from "../controls.js";
import { count, counted, cut, day, memories as memoriesText } from "../format.js";
import { button, fill, h, memoryText, plainButton } from "../html.js";
import { MapCanvas } from "../map_canvas.js";
import { colouring, rootsOf, tokensOf } from "../map_colours.js";
import { readMap } from "../map_data.js";
import { Points } from "../map_points.js";
import { trustMark } from "../memory.js";
import { commandLine, emptyState, failure, firstSteps, News } from "../part.js";
import { Sayers } from "../sayers.js";
import { LassoPane } from "./map/lasso.js";
import { legend, LIT, topicTable } from "./map/legend.js";

/** @typedef {import("../map_colours.js").By} By */
/** @typedef {import("../map_data.js").MapData} MapData */

const WAYS = /** @type {[By, string][]} */ ([
  ["topic", "topic"],
  ["layer", "layer"],
  ["age", "age"],
  ["source", "source"],
  ["trust", "trust"],
]);
const SLOW_MS = 300;
const ZOOM_STEP = 1.6;
const TYPED_MS = 200;
const HOVER_MS = 90;
const ADDRESS_MS = 400;
const NAMES_LEAST = 4; // points that a name stands for
const LARGE_SHARE = 0.006; // of all points, from which a topic has a large name
const NAME_CHARACTERS = 28;

/** @type {import("../app.js").View} */
export default { title: "Map", mount: (place, page) => new MemoryMap(place, page) };

class MemoryMap {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    /** @type {MapData | null} */
    this.data = null;
    /** @type {MapData | null} a newer layout, which is used when asked for */
    this.newer = null;
    this.points = new Points([], []);
    this.colours = colouring({ topic: [], layer: [], age: [], source: [], trust: [] }, "topic", new Map());
    this.roots = rootsOf([]);
    /** @type {By} */
    this.by = "topic";
    /** @type {Set<number> | null} points that the search lights up */
    this.lit = null;
    /** @type {number[]} */
    this.chosen = [];
    this.askedFor = "";
    this.drawnFor = "";
    this.news = new News(() => void this.read());
    /** @type {AbortController | null} */
    this.reading = null;
    /** @type {AbortController | null} */
    this.searching = null;
    /** @type {Record<string, ReturnType<typeof setTimeout>>} */
    this.timers = {};
    this.sayers = new Sayers();
    this.canvas = new MapCanvas({
      dot: (at) => this.chooseDot(at),
      hover: (at, x, y) => this.hover(at, x, y),
      lasso: (line) => this.lassoed(line),
      moved: () => this.keepAddress(),
    });
    this.isTable = false;
    this.lasso = new LassoPane(page, this.sayers, () => this.clearLasso());
    this.parts = this.buildParts(place);
    this.measured = new ResizeObserver(() => this.reserve());
    this.measured.observe(this.parts.stage);
  }

  /** @returns {Record<string, () => void>} */
  get keys() {
    return {
      ArrowLeft: () => this.moveReticle(-1, 0),
      ArrowRight: () => this.moveReticle(1, 0),
      ArrowUp: () => this.moveReticle(0, -1),
      ArrowDown: () => this.moveReticle(0, 1),
      "+": () => this.zoom(ZOOM_STEP),
      "=": () => this.zoom(ZOOM_STEP),
      "-": () => this.zoom(1 / ZOOM_STEP),
      0: () => this.showAll(),
      l: () => this.toggleLasso(),
      ".": () => void this.read(),
      " ": () => this.lasso.members.check(),
      ...this.lasso.keys,
    };
  }

  /** @param {HTMLElement} place */
  buildParts(place) {
    const { page } = this;
    const choice = segments("Coloured by", WAYS, (value) =>
      page.set({ by: value === "topic" ? null : value, only: null }),
    );
    const field = h("input", {
      type: "search",
      placeholder: "light up what matches",
      "aria-label": "Light up what matches",
      dir: "auto",
      on: {
        input: () => {
          clearTimeout(this.timers.typed);
          this.timers.typed = setTimeout(() => page.set({ q: field.value.trim() || null }), TYPED_MS);
        },
      },
    });
    const tableButton = plainButton("as a table", () => {
      this.isTable = !this.isTable;
      this.drawTable();
    });
    const lassoButton = button("Lasso", "l", () => this.toggleLasso(), {
      class: "lasso-button",
      "aria-pressed": "false",
    });
    const head = h(
      "header.map-head",
      h("h1", "Map"),
      choice.place,
      h("span.grow"),
      field,
      lassoButton,
      h(
        "div.segments",
        { role: "group", "aria-label": "Zoom" },
        h("button", { "aria-label": "Smaller", on: { click: () => this.zoom(1 / ZOOM_STEP) } }, "−"),
        h("button", { "aria-label": "Larger", on: { click: () => this.zoom(ZOOM_STEP) } }, "+"),
        h("button", { on: { click: () => this.showAll() } }, "all"),
      ),
    );
    const said = h("div.hidden", { role: "gridcell", "aria-live": "polite" });
    const reticle = h(
      "div.map-reticle",
      { role: "grid", tabindex: 0, "aria-label": "Map of the memories" },
      h("div", { role: "row" }, said),
    );
    this.canvas.place.append(reticle);
    const tip = h("div.map-tip.box", { hidden: true });
    const note = h("div.map-note");
    const foot = h("div.map-foot.meta");
    const table = h("div.map-table", { hidden: true });
    const stage = h("div.map-stage", this.canvas.place, table, head, note, foot, tip);
    const legend = h("section");
    const side = { class: "pane map-side", "aria-label": "What is on the map" };
    fill(place, stage, h("aside", side, this.lasso.place, legend));
    return { choice, field, tableButton, lassoButton, head, said, reticle, tip, note, foot, table, stage, legend };
  }

  /** @param {number} factor */
  zoom(factor) {
    this.canvas.glideTo(this.canvas.zoomed(factor));
  }

  /** Keep names away from what lies over the map. */
  reserve() {
    const { head } = this.parts;
    this.canvas.reserved = [[0, 0, 1e6, head.offsetTop + head.offsetHeight - 2]];
    this.canvas.ask();
  }

  /** @param {import("../app.js").Route} route */
  show(route) {
    const { params } = route;
    this.by = WAYS.find(([way]) => way === params.get("by"))?.[0] ?? "topic";
    this.parts.choice.show(this.by);
    if (document.activeElement !== this.parts.field) this.parts.field.value = params.get("q") ?? "";
    if (this.askedFor !== this.page.namespace) {
      this.askedFor = this.page.namespace;
      const [x, y, z] = ["x", "y", "z"].map((name) => Number(params.get(name)));
      if (z > 0) this.canvas.look = { x, y, z };
      void this.read();
      return;
    }
    const drawn = [this.by, params.get("only"), params.get("q")].join("\n");
    if (drawn === this.drawnFor) return;
    this.drawnFor = drawn;
    void this.light();
  }

  current() {
    if (this.lasso.hasFocus) return this.lasso.members.current();
    return this.canvas.reticle >= 0 ? (this.data?.ids[this.canvas.reticle] ?? null) : null;
  }

  /** @param {number} delta */
  step(delta) {
    this.lasso.members.step(delta);
  }

  open() {
    if (this.lasso.hasFocus) return this.lasso.members.open();
    if (this.chosen.length && !this.lasso.isListed) return this.lasso.list();
    const id = this.current();
    if (id) this.page.set({ id });
  }

  refresh() {
    this.sayers.known.clear();
    void this.read();
  }

  leave() {
    this.reading?.abort();
    this.searching?.abort();
    Object.values(this.timers).forEach(clearTimeout);
    this.measured.disconnect();
    this.canvas.stop();
    this.sayers.stop();
  }

  back() {
    if (this.canvas.isLassoing || this.chosen.length) {
      this.clearLasso();
      return true;
    }
    if (this.canvas.reticle >= 0) {
      this.canvas.reticle = -1;
      this.canvas.ask();
      return true;
    }
    return false;
  }

  /** @param {string} name */
  heard(name) {
    if (name === "change") this.news.add(1);
  }

  // Reading

  async read() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.news.clear();
    const slow = setTimeout(() => this.say(`reading ${memoriesText(this.page.status?.memories ?? 0)} …`), SLOW_MS);
    try {
      const [data, topics] = await Promise.all([
        readMap(this.page.namespace, reading.signal),
        call("GET /v1/topics", { namespace: this.page.namespace }, { signal: reading.signal }),
      ]);
      this.roots = rootsOf(topics.topics);
      if (this.data && this.data.layout !== data.layout && data.ids.length && this.data.namespace === data.namespace) {
        this.newer = data; // nothing moves until it is asked for
      } else {
        this.use(data);
      }
    } catch (error) {
      if (error instanceof DOMException) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.isGone) return this.page.noteDaemon(false);
      this.say("");
      this.drawMissing(failure(error.message, () => void this.read()));
    } finally {
      clearTimeout(slow);
      this.drawNote();
    }
  }

  /** @param {MapData} data */
  use(data) {
    const before = this.data;
    this.data = data;
    this.newer = null;
    if (!before || before.layout !== data.layout || before.namespace !== data.namespace) {
      this.clearLasso();
      this.canvas.reticle = -1;
      if (before) this.canvas.look = { x: 0.5, y: 0.5, z: 1 };
    }
    const chosen = new Set(this.chosen.map((at) => before?.ids[at]));
    this.points = new Points(data.x, data.y);
    this.canvas.points = this.points;
    this.chosen = chosen.size ? data.ids.flatMap((id, at) => (chosen.has(id) ? [at] : [])) : [];
    this.drawMissing(data.ids.length ? null : this.nothing());
    void this.light();
    this.nameTopics();
    this.parts.legend.hidden = !data.ids.length;
    this.say(
      !data.ids.length
        ? ""
        : `${counted(data.ids.length, "point")}${this.waiting ? `, ${count(this.waiting)} have no place yet` : ""} · near means alike; directions mean nothing`,
    );
    this.parts.reticle.setAttribute(
      "aria-label",
      `Map of ${memoriesText(data.ids.length)}; arrows go to the nearest point, Enter opens it`,
    );
    if (this.isTable) this.drawTable();
  }

  /** Memories that have no place yet. */
  get waiting() {
    const { status, namespace } = this.page;
    const numbers = status?.namespaces ?? {};
    const all =
      namespace === "*"
        ? status?.memories
        : (numbers[namespace] ?? 0) + (namespace === "default" ? 0 : (numbers.default ?? 0));
    return Math.max(0, (all ?? 0) - (this.data?.ids.length ?? 0));
  }

  /** @param {string} text */
  say(text) {
    fill(this.parts.foot, text, " ", this.points.count ? this.parts.tableButton : null);
  }

  drawNote() {
    const use = () => {
      if (this.newer) this.use(this.newer);
      this.drawNote();
    };
    const words = "The map was drawn again: points have other places. ";
    fill(
      this.parts.note,
      this.newer ? h("p.note-line", { role: "status" }, words, plainButton("Use the new one", use)) : this.news.place,
    );
  }

  /**
   * Say why there is no map, over its place.
   * @param {import("../html.js").Children} why nothing: there is one
   */
  drawMissing(why) {
    this.parts.stage.querySelector(".map-missing")?.remove();
    if (why) this.parts.stage.append(h("div.map-missing", why));
  }

  /** Why a map that was read has no point. */
  nothing() {
    const again = button("Look again", ".", () => void this.read());
    if (this.page.status && this.page.status.models.embedding?.state !== "ready") {
      return emptyState(
        "There is no map without an embedding model",
        "A memory's place on the map comes from its meaning, and the meaning from the model. Everything else works by words.",
        commandLine("Get the model:", "mnemo models pull all-MiniLM-L6-v2"),
      );
    }
    if (this.data?.state === "computing") {
      const { share } = this.data;
      return emptyState(
        `The map is being drawn${share === null ? "" : `: ${Math.round(100 * share)}%`}`,
        "It is computed in the background, once; later memories are put where they belong.",
        again,
      );
    }
    return emptyState(
      "There is no memory on the map yet",
      this.data?.reason
        ? `${this.data.reason.replace(/^./, (first) => first.toUpperCase())}.`
        : "A memory has a place as soon as it has a vector, and a map is drawn from a few memories on.",
      ...firstSteps(),
      again,
    );
  }

  // Colours and light

  async light() {
    if (!this.data) return;
    const { params } = this.page.route;
    this.drawnFor = [this.by, params.get("only"), params.get("q")].join("\n");
    this.colours = colouring(this.data.known, this.by, this.roots);
    this.canvas.setTokens(tokensOf(this.colours), this.by === "age");
    this.paint();
    this.drawLegend();
    this.drawLasso();
    const query = params.get("q");
    this.searching?.abort();
    if (!query) {
      this.lit = null;
      return this.paint();
    }
    const searching = new AbortController();
    this.searching = searching;
    try {
      const { memories } = await call(
        "POST /v1/recall",
        { query, top_k: LIT, token_budget: null, namespace: this.page.namespace, dry: true },
        { signal: searching.signal },
      );
      const at = new Map(this.data.ids.map((id, index) => [id, index]));
      this.lit = new Set(memories.flatMap((memory) => at.get(memory.id) ?? []));
      this.paint();
      this.drawLegend();
    } catch (error) {
      this.page.fail(error);
    }
  }

  paint() {
    const only = this.colours.categories.findIndex(
      (each) =>
        each.key === this.page.route.params.get("only") ||
        (each.key === "" && this.page.route.params.get("only") === "none"),
    );
    const { lit } = this;
    const chosen = new Set(this.chosen);
    this.points.paint(
      (at) => this.colours.kindOf[at] ?? 0,
      (at) =>
        chosen.has(at) ? 2 : (lit && !lit.has(at)) || (only >= 0 && this.colours.ownOf[at] !== only) ? 0 : lit ? 2 : 1,
    );
    this.canvas.ask();
  }

  /** Put the names of topics at the top edges of their points, the larger first. */
  nameTopics() {
    const topic = this.data?.known.topic;
    /** @type {Map<string, {name: string, level: number, points: number[]}>} */
    const groups = new Map();
    topic?.forEach((id, at) => {
      const path = id === null ? [] : (this.roots.get(id)?.path ?? []);
      path.forEach((each, level) => {
        const group = groups.get(each.id);
        if (group) group.points.push(at);
        else groups.set(each.id, { name: cut(each.name, NAME_CHARACTERS), level: Math.min(2, level), points: [at] });
      });
    });
    const many = this.points.count * LARGE_SHARE;
    this.canvas.names = [...groups.values()]
      .filter((group) => group.points.length >= NAMES_LEAST)
      .map((group) => {
        const { x, top, y } = this.points.place(group.points);
        const level = group.level || (group.points.length < many ? 1 : 0); // a small one does not stand as large as the great ones
        return { name: group.name, level, size: group.points.length, x, y: level ? (top + y) / 2 : top };
      })
      .sort((one, other) => one.level - other.level || other.size - one.size);
    this.canvas.ask();
  }

  drawLegend() {
    const only = this.page.route.params.get("only");
    fill(
      this.parts.legend,
      legend(this.by, this.colours, this.lit?.size ?? null, only, (key) =>
        this.page.set({ only: only === key ? null : key }),
      ),
    );
  }

  // Points

  /** @param {number} at */
  chooseDot(at) {
    this.canvas.reticle = at;
    this.canvas.ask();
    this.page.set({ id: this.data?.ids[at] });
  }

  /** @param {number} dx @param {number} dy */
  moveReticle(dx, dy) {
    if (this.lasso.hasFocus) {
      if (dy) this.lasso.members.step(dy);
      return;
    }
    if (!this.points.count) return;
    const from = this.canvas.reticle;
    const { look } = this.canvas;
    const next =
      from < 0
        ? this.points.nearest(look.x, look.y, 2)
        : this.points.toward(this.points.x(from), this.points.y(from), dx, dy, from);
    if (next < 0) return;
    this.canvas.reticle = next;
    const [x, y] = this.canvas.toScreen(this.points.x(next), this.points.y(next));
    const [width, height] = [this.canvas.width ?? 0, this.canvas.height ?? 0];
    if (x < 40 || y < 80 || x > width - 40 || y > height - 60)
      this.canvas.glideTo({ ...look, x: this.points.x(next), y: this.points.y(next) });
    else this.canvas.ask();
    void this.showTip(next, x, y);
  }

  /** @param {number} at @param {number} x @param {number} y */
  hover(at, x, y) {
    clearTimeout(this.timers.hover);
    if (at < 0) {
      this.parts.tip.hidden = true;
      return;
    }
    this.timers.hover = setTimeout(() => void this.showTip(at, x, y), HOVER_MS);
  }

  /**
   * Show the text of a point beside it, and say it to who cannot see it.
   * @param {number} at
   * @param {number} x
   * @param {number} y
   */
  async showTip(at, x, y) {
    const id = this.data?.ids[at];
    if (!id) return;
    const [memory] = await this.sayers.read([id]).catch((error) => {
      this.page.fail(error);
      return [];
    });
    if (!memory || (at !== this.canvas.hovered && at !== this.canvas.reticle)) return;
    const text = memory.tags.includes("sensitive")
      ? h("span.meta", "sensitive: open it to see the text")
      : memoryText(memory.content);
    const kept = memory.state === "archived" ? "archive" : memory.layer;
    fill(this.parts.tip, text, h("p.meta", trustMark(memory.trust), ` · ${day(memory.event_at)} · ${kept}`));
    fill(
      this.parts.said,
      memory.tags.includes("sensitive") ? "a sensitive memory" : memory.content.slice(0, 300),
      `, ${day(memory.event_at)}`,
    );
    this.parts.tip.hidden = false;
    const [width, height] = [this.parts.tip.offsetWidth, this.parts.tip.offsetHeight];
    const left = x + 16 + width > this.parts.stage.clientWidth ? Math.max(4, x - 16 - width) : x + 16;
    this.parts.tip.style.setProperty("left", `${left}px`);
    this.parts.tip.style.setProperty("top", `${y - 12 - height < 60 ? y + 16 : y - 12 - height}px`);
  }

  showAll() {
    this.canvas.glideTo({ x: 0.5, y: 0.5, z: 1 });
  }

  keepAddress() {
    this.parts.tip.hidden = true;
    clearTimeout(this.timers.address);
    this.timers.address = setTimeout(() => {
      const { x, y, z } = this.canvas.look;
      const isAll = Math.abs(z - 1) < 0.01 && Math.abs(x - 0.5) < 0.01 && Math.abs(y - 0.5) < 0.01;
      this.page.set(isAll ? { x: null, y: null, z: null } : { x: x.toFixed(3), y: y.toFixed(3), z: z.toFixed(2) });
    }, ADDRESS_MS);
  }

  // The lasso

  toggleLasso() {
    this.markLassoing(!this.canvas.isLassoing);
  }

  /** @param {boolean} isLassoing */
  markLassoing(isLassoing) {
    this.canvas.isLassoing = isLassoing;
    this.parts.lassoButton.setAttribute("aria-pressed", String(isLassoing));
    this.canvas.place.classList.toggle("lassoing", isLassoing);
  }

  /** @param {[number, number][]} line */
  lassoed(line) {
    this.markLassoing(false);
    this.chosen = this.points.inside(line).filter((at) => this.points.data[4 * at + 3] !== 0);
    if (!this.chosen.length) {
      this.clearLasso();
      return this.page.toast("No point is in the lasso");
    }
    this.paint();
    this.drawLasso();
  }

  clearLasso() {
    this.markLassoing(false);
    this.canvas.line = [];
    this.chosen = [];
    this.paint();
    this.drawLasso();
  }

  drawLasso() {
    const { categories, ownOf } = this.colours;
    this.lasso.show(
      this.chosen.map((at) => this.data?.ids[at] ?? ""),
      this.chosen.map((at) => categories[ownOf[at]].name),
    );
  }

  // The same as a table

  drawTable() {
    if (!this.data) return;
    this.parts.table.hidden = !this.isTable;
    this.canvas.place.hidden = this.isTable;
    this.parts.tableButton.firstChild?.replaceWith(this.isTable ? "as a picture" : "as a table");
    if (this.isTable) fill(this.parts.table, topicTable(colouring(this.data.known, "topic", this.roots), this.points));
  }
}
