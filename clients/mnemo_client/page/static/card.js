// The card of one memory, over any view: text, actions, details, versions, relations.

import { ApiError, ask, call } from "./api.js";
import { bar } from "./charts.js";
import { promptAfter } from "./controls.js";
import { difference } from "./diff.js";
import { counted, day, moment, origin, weekday } from "./format.js";
import { button, fill, h, memoryText, plainButton } from "./html.js";
import { markdown } from "./markdown.js";
import { change, move, pin, restore, takeBack, trash, trustMark } from "./memory.js";

/** @typedef {import("../api_types").MemoryView} Memory */
/** @typedef {import("./app.js").Page} Page */

const VERSIONS_SHOWN = 20;
const RELATIONS_SHOWN = 50;
const SHOWN_SHOWN = 10;
/** @type {Record<string, Record<string, string>>} words for relations by direction */
const RELATIONS = {
  updates: { to: "replaces", from: "replaced by" },
  repeats: { to: "repeats", from: "repeated by" },
  related: { from: "related", to: "related" },
};

/**
 * Open the card of a memory, and do what one of its keys does; or do that on the card that is open.
 * @param {Page} page
 * @param {string} id
 * @param {string} [key]
 */
export function openCard(page, id, key = "") {
  if (page.card?.id === id) {
    page.card.act(key);
    return;
  }
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const card = new Card(page, id);
  page.card?.close();
  page.card = card;
  card.cameFrom = before;
  card.act(key);
  void card.read();
}

export class Card {
  /** @param {Page} page @param {string} id */
  constructor(page, id) {
    this.page = page;
    this.id = id;
    /** @type {HTMLElement | null} */
    this.cameFrom = null;
    /** @type {Memory | null} */
    this.memory = null;
    this.isEditing = false;
    this.isNew = true; // it takes the focus once, and never out of a field
    this.waiting = ""; // the key of an action that waits until the memory is read
    this.place = h("article.card", { role: "dialog", "aria-label": "Memory", tabindex: -1 });
    document.getElementById("card-place")?.append(this.place);
    document.body.classList.add("with-card");
    /** @type {Record<string, () => void>} */
    this.keys = {};
  }

  /** Close the card; the focus goes back to where it came from. */
  close() {
    const hadFocus = this.place.contains(document.activeElement);
    this.place.remove();
    if (this.page.card === this) {
      this.page.card = null;
      document.body.classList.remove("with-card");
      if (this.page.route.params.get("id")) this.page.set({ id: null });
      if (hadFocus) this.cameFrom?.focus({ preventScroll: true });
    }
  }

  refresh() {
    if (!this.isEditing) void this.read();
  }

  /**
   * Do what a key of the card does, now or once it is read.
   * @param {string} key
   */
  act(key) {
    if (this.memory) this.keys[key]?.();
    else if (key) this.waiting = key;
  }

  async read() {
    try {
      this.memory = await call(
        "GET /v1/memories/{id}",
        { as_of: this.page.route.params.get("as_of") },
        { part: this.id },
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(
        this.place,
        this.head(),
        h(
          "p.note-line",
          error.status === 404 ? "There is no such memory: it was forgotten, or the address is wrong." : error.message,
        ),
      );
      return;
    }
    this.draw(this.memory);
    if (this.isNew && !isField(document.activeElement)) this.place.focus({ preventScroll: true });
    this.isNew = false;
    if (this.waiting) this.act(this.waiting);
    this.waiting = "";
    await Promise.all([this.readVersions(), this.readRelations(), this.readShown()]);
  }

  /** @param {...import("./html.js").Children} badges */
  head(...badges) {
    const { page } = this;
    return h(
      "header",
      h("code", { title: this.id }, this.id.slice(0, 8)),
      h("span.badges.grow", badges),
      button("↑", "k", () => page.shown?.step?.(-1), { class: "plain", "aria-label": "The one before" }),
      button("↓", "j", () => page.shown?.step?.(1), { class: "plain", "aria-label": "The next one" }),
      button("×", "Esc", () => this.close(), { class: "plain", "aria-label": "Close" }),
    );
  }

  /** @param {Memory} memory */
  draw(memory) {
    const { page } = this;
    const badge = (/** @type {string} */ text) => h("span.badge", { dir: "auto" }, text);
    const isNote = memory.note !== null;
    const isNow = !page.route.params.get("as_of"); // what is past cannot be changed
    const isActive = isNow && (memory.state === "active" || memory.state === "archived");
    const body = h("div.memory", memory.tags.includes("sensitive") ? this.covered(memory) : wholeText(memory));
    const actions = h("div.actions");
    this.keys = { h: () => this.place.querySelector(".versions")?.scrollIntoView({ block: "start" }) };
    if (isNote) this.keys.o = () => this.openEditor();
    if (!page.isReadOnly && isActive) {
      Object.assign(this.keys, {
        e: () => (isNote ? this.openEditor() : this.edit(memory, body)),
        p: () => void pin(page, memory),
        g: () => this.tag(memory, actions),
        x: () => {
          void trash(page, memory.id);
        },
        m: () => this.more(memory, actions),
      });
      fill(
        actions,
        isNote ? null : button("Edit", "e", this.keys.e),
        button(memory.pinned ? "Unpin" : "Pin", "p", this.keys.p),
        button("Tag", "g", this.keys.g),
        isNote ? button("Open in editor", "o", this.keys.o) : null,
        button("Trash", "x", this.keys.x),
        h("span.grow"),
        button("More", "m", this.keys.m),
      );
    } else if (!page.isReadOnly && isNow && memory.state !== "superseded") {
      this.keys.r = () => void restore(page, memory.id);
      fill(
        actions,
        button("Restore", "r", this.keys.r),
        h("span.grow"),
        button("More", "m", () => this.more(memory, actions)),
      );
      this.keys.m = () => this.more(memory, actions);
    } else if (isNote) {
      fill(actions, button("Open in editor", "o", this.keys.o));
    }
    fill(
      this.place,
      this.head(
        badge(memory.kind),
        badge(memory.state === "archived" ? "archive" : memory.layer),
        memory.pinned ? badge("pinned") : null,
        memory.state === "active" ? null : h("span.badge.past", memory.state),
        h("span.badge.where", { dir: "auto", title: memory.namespace }, `in ${memory.namespace}`),
      ),
      isNote && !page.isReadOnly
        ? h("p.meta", "A part of a note: its text is changed in the file, and remembered seconds later.")
        : null,
      body,
      actions,
      this.details(memory),
      h("section.why"),
      h("section.versions"),
      h("section.relations"),
      h("section.shown"),
    );
    this.drawWhy();
  }

  /** Say why the view shows the memory where it does. */
  drawWhy() {
    const place = this.place.querySelector(".why");
    if (place) fill(place, ...(this.page.shown?.why?.(this.id) ?? []));
  }

  /** @param {Memory} memory */
  covered(memory) {
    const cover = h(
      "button.cover",
      { on: { click: () => cover.replaceWith(wholeText(memory)) } },
      "sensitive: show the text",
    );
    return cover;
  }

  /** @param {Memory} memory */
  details(memory) {
    /** @type {[string, import("./html.js").Children][]} */
    const rows = [
      [
        "who said it",
        [trustMark(memory.trust), ` ${memory.author ?? ""} `, h("span", { dir: "auto" }, origin(memory))],
      ],
      [
        "happened",
        [
          h("b", weekday(memory.event_at)),
          ` · stored ${moment(memory.created_at)}`,
          memory.version > 1 ? ` · changed ${moment(memory.modified_at)}` : "",
        ],
      ],
      [
        "importance",
        `${memory.importance.toFixed(2)} · ${memory.importance_source === "user" ? "set by you" : `by ${memory.importance_source}`}`,
      ],
      [
        "strength",
        [
          bar(memory.strength),
          ` ${memory.strength.toFixed(2)} `,
          h(
            "span.meta",
            `recalled ${counted(memory.access_count, "time")}${memory.repetition_count ? `, repeated ${counted(memory.repetition_count, "time")}` : ""}`,
          ),
        ],
      ],
      [
        "tags",
        memory.tags.length
          ? h(
              "span.tags",
              memory.tags.map((tag) => h("span.tag", { dir: "auto" }, `#${tag}`)),
            )
          : "none",
      ],
    ];
    if (memory.expires_at) rows.push(["holds until", day(memory.expires_at)]);
    if (memory.key) rows.push(["key", h("code", { dir: "auto" }, memory.key)]);
    return h(
      "dl.details",
      rows.map(([name, value]) => h("div", h("dt", name), h("dd", value))),
    );
  }

  async readVersions() {
    const { versions } = await call("GET /v1/memories/{id}/history", { limit: VERSIONS_SHOWN + 1 }, { part: this.id });
    const shown = versions.slice(0, VERSIONS_SHOWN);
    const items = shown.map((version, index) => {
      const older = versions[index + 1];
      const isSame = older && older.memory.content === version.memory.content;
      const text = !older
        ? null
        : isSame
          ? h("span.meta", changedFields(older.memory, version.memory))
          : difference(older.memory.content, version.memory.content);
      return h(
        "li",
        h("span.number", String(version.memory.version)),
        h(
          "div",
          text,
          h(
            "span.meta",
            `${moment(version.at)} · ${version.by || "you"} · ${version.what || "change"} ${version.seq}`,
            this.page.isReadOnly || !older ? null : plainButton("undo", () => void takeBack(this.page, version.seq)),
          ),
        ),
      );
    });
    const place = this.place.querySelector(".versions");
    if (place)
      fill(
        place,
        h(
          "h3",
          "Versions ",
          h("span.meta", versions.length > VERSIONS_SHOWN ? `the last ${VERSIONS_SHOWN}` : String(items.length)),
        ),
        h("ol.plain-list", items),
      );
  }

  async readRelations() {
    const { edges } = await call("GET /v1/memories/{id}/edges", { limit: RELATIONS_SHOWN }, { part: this.id });
    const place = this.place.querySelector(".relations");
    if (!place || !edges.length) return;
    fill(
      place,
      h("h3", "Relations"),
      h(
        "ul.plain-list",
        edges.map((edge) =>
          h(
            "li.row",
            h("span.label", RELATIONS[edge.relation][edge.direction]),
            h(
              "button.plain.grow.line-clamp",
              { on: { click: () => this.page.set({ id: edge.memory.id }) } },
              edge.memory.tags.includes("sensitive") ? "sensitive" : memoryText(edge.memory.content),
            ),
            h("time.meta", day(edge.memory.event_at)),
          ),
        ),
      ),
    );
  }

  async readShown() {
    const { shown, total } = await call("GET /v1/memories/{id}/shown", { limit: SHOWN_SHOWN }, { part: this.id });
    const place = this.place.querySelector(".shown");
    if (!place || !total) return;
    const rows = shown.map((each) =>
      h(
        "li.row",
        h("time.label", moment(each.at)),
        h("span.grow", `${each.operation}, number ${each.rank}`),
        h("span.meta", { dir: "auto" }, [each.by, each.session_id].filter(Boolean).join(" › ")),
      ),
    );
    const heading = total > shown.length ? `${total}, the last ${shown.length}` : String(total);
    fill(place, h("h3", "Shown in answers ", h("span.meta", heading)), h("ul.plain-list", rows));
  }

  // Actions

  openEditor() {
    ask("/page/open", { id: this.id }).then(
      ({ path }) => this.page.toast(`Opened ${path}`),
      (error) => this.page.fail(error),
    );
  }

  /** @param {Memory} memory @param {HTMLElement} body */
  async edit(memory, body) {
    if (this.isEditing) return;
    this.isEditing = true;
    const draft = await ask(`/page/drafts/${memory.id}`).catch(() => null);
    const field = h("textarea.edit", { dir: "auto", "aria-label": "Text of the memory", rows: 6 });
    field.value = draft?.text ?? memory.content;
    const keep = () => void ask(`/page/drafts/${memory.id}`, { text: field.value }).catch(() => null);
    const done = () => {
      this.isEditing = false;
      void ask(`/page/drafts/${memory.id}`, { text: null }).catch(() => null);
      void this.read();
    };
    const save = async (/** @type {number} */ version) => {
      let seq;
      try {
        const patch = { content: field.value, if_version: version };
        ({ seq } = await call("PATCH /v1/memories/{id}", patch, { part: memory.id }));
      } catch (error) {
        if (error instanceof ApiError && error.status === 409) return this.conflict(memory, field, form, save);
        return this.page.fail(error); // the draft stays
      }
      done();
      this.page.toast(
        "Changed",
        seq
          ? () => void this.page.write(async () => (await call("POST /v1/undo", { seq }), { text: "Taken back" }))
          : null,
      );
      this.page.refresh();
    };
    field.addEventListener("input", keep);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void save(memory.version);
    });
    const form = h(
      "div",
      field,
      h(
        "div.actions",
        h("button.primary", { on: { click: () => void save(memory.version) } }, "Save", h("kbd", "Ctrl ↵")),
        button("Discard", "", done),
      ),
    );
    fill(body, form);
    field.focus();
  }

  /**
   * Another version came meanwhile: show both, and let the person choose.
   * @param {Memory} memory
   * @param {HTMLTextAreaElement} field
   * @param {HTMLElement} form
   * @param {(version: number) => Promise<void>} save
   */
  async conflict(memory, field, form, save) {
    const theirs = await call("GET /v1/memories/{id}", {}, { part: memory.id });
    form.querySelector(".conflict")?.remove();
    form.append(
      h(
        "div.conflict.box",
        h("p", "⚠ It was changed meanwhile. What yours changes in it:"),
        h("p", difference(theirs.content, field.value)),
        h(
          "div.actions",
          button("Keep mine", "", () => void save(theirs.version)),
          button("Keep theirs", "", () => {
            this.isEditing = false;
            void ask(`/page/drafts/${memory.id}`, { text: null });
            void this.read();
          }),
        ),
      ),
    );
  }

  /** @param {Memory} memory @param {HTMLElement} actions */
  tag(memory, actions) {
    const field = h("input", {
      type: "text",
      value: memory.tags.join(", "),
      "aria-label": "Tags, divided by commas",
      dir: "auto",
    });
    const save = () => {
      const tags = field.value
        .split(",")
        .map((tag) => tag.trim().replace(/^#/, ""))
        .filter(Boolean);
      void change(this.page, memory.id, { tags, if_version: memory.version }, "Tags changed");
    };
    promptAfter(actions, h("label.grow", h("span.meta", "Tags, divided by commas"), field), "Save", save);
    field.focus();
  }

  /** @param {Memory} memory @param {HTMLElement} actions */
  more(memory, actions) {
    const open = actions.parentElement?.querySelector(".more");
    if (open) return open.remove();
    const layers = /** @type {const} */ (["buffer", "working", "core"]).filter((layer) => layer !== memory.layer);
    const kinds = /** @type {const} */ (["semantic", "episodic", "procedural"]).filter((kind) => kind !== memory.kind);
    actions.after(
      h(
        "div.more.box",
        h(
          "p",
          h("span.label", "move to"),
          layers.map((layer) => button(layer, "", () => void move(this.page, memory.id, { layer }))),
          memory.state === "archived"
            ? null
            : button("archive", "", () => void move(this.page, memory.id, { archived: true })),
          button("another namespace …", "", () => this.moveAway(memory, actions)),
        ),
        h(
          "p",
          h("span.label", "file as"),
          kinds.map((kind) => button(kind, "", () => void change(this.page, memory.id, { kind }, `Filed as ${kind}`))),
        ),
        h(
          "p",
          h("span.label", "no way back"),
          button("Forget for ever …", "", () => void this.forget(memory), { class: "danger" }),
        ),
      ),
    );
  }

  /** @param {Memory} memory @param {HTMLElement} actions */
  moveAway(memory, actions) {
    const known = Object.keys(this.page.status?.namespaces ?? {}).filter((name) => name !== memory.namespace);
    const names = h(
      "datalist",
      { id: "other-namespaces" },
      known.map((value) => h("option", { value })),
    );
    const field = h("input", { type: "text", list: names.id, "aria-label": "Namespace", dir: "auto" });
    const label = h("label.grow", h("span.meta", "Namespace, known or new"), field, names);
    promptAfter(actions, label, "Move", () => {
      const namespace = field.value.trim();
      if (namespace) void move(this.page, memory.id, { namespace });
    });
    field.focus();
  }

  /** @param {Memory} memory */
  async forget(memory) {
    const { showForget } = await import("./forget.js");
    await showForget(this.page, memory);
  }
}

/**
 * Return the text of a memory: that of a note and of a turn, which are written so, as Markdown.
 * @param {Memory} memory
 */
const wholeText = (memory) =>
  memory.note || memory.turn ? markdown(memory.content, memory.note === null) : memoryText(memory.content);

/** @param {Element | null} element */
const isField = (element) => element instanceof HTMLElement && element.matches("input, textarea, select");

/** @param {string | number | boolean | null} value */
const said = (value) => (typeof value === "number" ? value.toFixed(2) : String(value ?? "none"));

/**
 * Return what else than the text a version changed.
 * @param {Memory} before
 * @param {Memory} after
 */
function changedFields(before, after) {
  const fields = /** @type {const} */ ([
    "kind",
    "layer",
    "state",
    "pinned",
    "importance",
    "namespace",
    "category",
    "superseded_by",
  ]);
  const parts = fields
    .filter((field) => before[field] !== after[field])
    .map((field) => `${field.replace("_", " ")} ${said(before[field])} → ${said(after[field])}`);
  const tags = after.tags
    .filter((tag) => !before.tags.includes(tag))
    .map((tag) => `+#${tag}`)
    .concat(before.tags.filter((tag) => !after.tags.includes(tag)).map((tag) => `−#${tag}`));
  return [...parts, ...tags].join(" · ") || "nothing that is shown";
}
