// What was added, changed and removed, change by change, with the way back.

import { call } from "../../api.js";
import { difference } from "../../diff.js";
import { counted, moment } from "../../format.js";
import { button, fill, h, memoryText } from "../../html.js";
import { emptyState, readInto, Rows } from "../../part.js";
import { excerpt } from "../../memory.js";
import { forwardAgain, proposeUndo } from "./undo_plan.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").DifferenceView} Change */

const SHOWN = 100;
const MEMBERS_SHOWN = 3;
/** @type {[string, string][]} */
const SPANS = [
  ["1d", "the last day"],
  ["7d", "the last 7 days"],
  ["30d", "the last 30 days"],
  ["365d", "the last year"],
];
/** @type {Record<Change["how"], string>} */
const WORDS = {
  added: "added",
  changed: "changed",
  dropped: "dropped for good",
  restored: "restored",
  trashed: "to the trash",
};

export class ChangesTab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    const since = h("select", {
      "aria-label": "Since",
      on: { change: () => page.set({ since: since.value === "7d" ? null : since.value }) },
    });
    this.since = since;
    this.head = h(
      "div",
      { class: "row list-note" },
      h(
        "span",
        { class: "grow" },
        "What is different, against ",
        since,
        " ago. What was taken back meanwhile is no difference.",
      ),
    );
    this.list = h("div", { role: "group", "aria-label": "Changes" });
    this.older = h("div", {});
    this.place = h("div", { class: "changes" }, this.head, this.list, this.older);
    this.rows = new Rows(this.list);
    this.keys = { z: () => /** @type {HTMLElement | null} */ (this.rows.selected?.querySelector(".undo"))?.click() };
  }

  get span() {
    return this.page.route.params.get("since") ?? "7d";
  }

  read() {
    fill(
      this.since,
      SPANS.map(([value, words]) =>
        h("option", { value, selected: value === this.span }, words.replace("the last ", "")),
      ),
    );
    if (this.list.querySelector(".undo-plan")) return;
    void readInto(
      this.page,
      this.list,
      () => this.asked(null),
      ({ rows, cursor }) => {
        this.drawOlder(cursor);
        this.list.setAttribute("role", rows.length ? "list" : "group");
        return rows.length ? rows : this.nothing();
      },
      "reading the changes",
    ).then(() => this.rows.keep());
  }

  /** @param {string | null} cursor */
  async asked(cursor) {
    const answer = await call("GET /v1/diff", {
      since: this.span,
      namespace: this.page.namespace,
      limit: SHOWN,
      cursor,
    });
    const all = [...answer.added, ...answer.changed, ...answer.removed].sort((one, other) => other.seq - one.seq);
    /** @type {Map<string, Change[]>} */
    const groups = new Map();
    for (const each of all) {
      const key = each.group ?? String(each.seq);
      groups.set(key, [...(groups.get(key) ?? []), each]);
    }
    return { rows: [...groups].map(([key, members]) => this.row(key, members)), cursor: answer.cursor };
  }

  /** @param {string | null} cursor */
  drawOlder(cursor) {
    fill(
      this.older,
      cursor
        ? button(
            "Older changes",
            "",
            () =>
              void this.asked(cursor).then(
                (answer) => {
                  this.list.append(...answer.rows);
                  this.drawOlder(answer.cursor);
                },
                (error) => this.page.fail(error),
              ),
            { class: "plain" },
          )
        : null,
    );
  }

  nothing() {
    return emptyState(
      "Nothing changed",
      `No memory is different against ${this.span.replace("d", this.span === "1d" ? " day" : " days")} ago.`,
      h(
        "p",
        { class: "row" },
        button("Look a year back", "", () => this.page.set({ since: "365d" })),
      ),
      h("pre", {}, h("code", {}, "mnemo diff 365d")),
    );
  }

  /**
   * @param {string} key
   * @param {Change[]} members
   */
  row(key, members) {
    const [first] = members;
    const plan = h("div", { class: "below" });
    const rest = members.slice(MEMBERS_SHOWN);
    const body = h(
      "div",
      { class: "body" },
      members.slice(0, MEMBERS_SHOWN).map((each) => this.member(each)),
    );
    if (rest.length) {
      const more = button(`${rest.length} more`, "", () => more.replaceWith(...rest.map((each) => this.member(each))), {
        class: "plain more-members",
      });
      body.append(more);
    }
    const isTakenBack = first.what.startsWith("undo:");
    return h(
      "div",
      {
        class: "change",
        role: "listitem",
        tabindex: -1,
        "data-row": key,
        "data-id": first.how === "dropped" ? null : first.id,
      },
      h(
        "p",
        { class: "row" },
        h(
          "span",
          { class: "meta grow" },
          h("time", {}, moment(first.at)),
          ` · ${first.by || "you"} · ${isTakenBack ? "taken back" : first.what || "change"}`,
          members.length > 1 ? ` · ${counted(members.length, "memory", "memories")}` : "",
          ` · change ${first.seq}`,
        ),
        this.page.isReadOnly || first.by === "notes" || first.how === "dropped"
          ? null
          : button(isTakenBack ? "Have it again" : "Undo", "z", () => void this.undo(first, members.length, plan), {
              class: "plain undo",
            }),
      ),
      body,
      plan,
    );
  }

  /**
   * @param {Change} first
   * @param {number} members
   * @param {HTMLElement} plan
   */
  async undo(first, members, plan) {
    const wanted = first.group ? { group: first.group } : { seq: first.seq };
    const done = `Change ${first.seq} was taken back`;
    if (members > 1 || first.group) return proposeUndo(this.page, plan, wanted, { label: "Take it back", done });
    await this.page.write(async () => ({ text: done, undo: forwardAgain(await call("POST /v1/undo", wanted)) }));
  }

  /** @param {Change} change */
  member(change) {
    const { memory, before, after, how } = change;
    const isEdited = how === "added" && memory !== null && memory.version > 1; // it was added, and changed since
    const word = h(
      "span",
      { class: `badge ${how === "trashed" || how === "dropped" ? "past" : ""}` },
      isEdited ? "added, changed" : WORDS[how],
    );
    if (!memory)
      return h("p", {}, word, h("span", { class: "meta" }, ` ${change.id.slice(0, 8)}: its text is gone for good`));
    const isSensitive = memory.tags.includes("sensitive");
    const content = /** @type {string | undefined} */ (before.content);
    const text = isSensitive
      ? excerpt(memory)
      : how === "changed" && content !== undefined
        ? difference(content, /** @type {string} */ (after.content))
        : how === "trashed"
          ? h("s", {}, memoryText(memory.content))
          : memoryText(memory.content);
    const fields = change.fields.filter(
      (name) => name !== "content" && name !== "state_version" && name !== "version" && name !== "modified_at",
    );
    return h(
      "div",
      { class: "member" },
      word,
      h(
        "div",
        { class: "grow" },
        isSensitive || content !== undefined
          ? h("p", {}, text)
          : h(
              "button",
              {
                type: "button",
                class: "plain memory-link line-clamp-2",
                on: { click: () => this.page.set({ id: memory.id }) },
              },
              text,
            ),
        how === "changed" && fields.length
          ? h(
              "p",
              { class: "meta", dir: "auto" },
              fields
                .map((name) => `${name.replaceAll("_", " ")} ${said(before[name])} → ${said(after[name])}`)
                .join(" · "),
            )
          : null,
      ),
    );
  }

  current() {
    return this.rows.selected?.dataset.id ?? null;
  }
  /** @param {number} delta */
  step(delta) {
    this.rows.step(delta);
  }
  open() {
    const id = this.current();
    if (id) this.page.set({ id });
  }
}

/** @param {unknown} value */
function said(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (typeof value === "number") return value > 1e12 ? moment(value) : String(Math.round(value * 100) / 100);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
