// What was added, changed and removed, change by change, with the way back.

import { call } from "../../api.js";
import { difference } from "../../diff.js";
import { counted, moment, valueText } from "../../format.js";
import { button, fill, h, memoryText } from "../../html.js";
import { emptyState, MemoryRows, offerOlder, readInto } from "../../part.js";
import { excerpt, memoryLink, takeBack } from "../../memory.js";
import { proposeUndo } from "./undo_plan.js";

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

export class ChangesTab extends MemoryRows {
  /** @param {import("../../app.js").Page} page */
  constructor(page) {
    super(page, h("div", { role: "group", "aria-label": "Changes" }));
    const since = h("select", {
      "aria-label": "Since",
      on: { change: () => page.set({ since: since.value === "7d" ? null : since.value }) },
    });
    this.since = since;
    this.head = h(
      "div.row.list-note",
      h("span.grow", "What is different, against ", since, " ago. What was taken back meanwhile is no difference."),
    );
    this.older = h("div");
    this.place = h("div.changes", this.head, this.list, this.older);
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
    offerOlder(this.page, this.older, "Older changes", cursor, async (after) => {
      const answer = await this.asked(after);
      this.list.append(...answer.rows);
      return answer.cursor;
    });
  }

  nothing() {
    return emptyState(
      "Nothing changed",
      `No memory is different against ${this.span.replace("d", this.span === "1d" ? " day" : " days")} ago.`,
      h(
        "p.row",
        button("Look a year back", "", () => this.page.set({ since: "365d" })),
      ),
      h("pre", h("code", "mnemo diff 365d")),
    );
  }

  /** @param {string} key @param {Change[]} members */
  row(key, members) {
    const [first] = members;
    const plan = h("div.below");
    const rest = members.slice(MEMBERS_SHOWN);
    const body = h(
      "div.body",
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
      "div.change",
      { role: "listitem", tabindex: -1, "data-row": key, "data-id": first.how === "dropped" ? null : first.id },
      h(
        "p.row",
        h(
          "span.meta.grow",
          h("time", moment(first.at)),
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

  /** @param {Change} first @param {number} members @param {HTMLElement} plan */
  async undo(first, members, plan) {
    if (members === 1 && !first.group) return takeBack(this.page, first.seq);
    const wanted = first.group ? { group: first.group } : { seq: first.seq };
    const done = `Change ${first.seq} was taken back`;
    await proposeUndo(this.page, plan, wanted, { label: "Take it back", done });
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
    if (!memory) return h("p", word, h("span.meta", ` ${change.id.slice(0, 8)}: its text is gone for good`));
    const isSensitive = memory.tags.includes("sensitive");
    const content = /** @type {string | undefined} */ (before.content);
    const text = isSensitive
      ? excerpt(memory)
      : how === "changed" && content !== undefined
        ? difference(content, /** @type {string} */ (after.content))
        : how === "trashed"
          ? h("s", memoryText(memory.content))
          : memoryText(memory.content);
    const fields = change.fields.filter(
      (name) => name !== "content" && name !== "state_version" && name !== "version" && name !== "modified_at",
    );
    return h(
      "div.member",
      word,
      h(
        "div.grow",
        isSensitive || content !== undefined ? h("p", text) : memoryLink(this.page, memory.id, text, ".line-clamp-2"),
        how === "changed" && fields.length
          ? h(
              "p.meta",
              { dir: "auto" },
              fields
                .map((name) => `${name.replaceAll("_", " ")} ${said(before[name])} → ${said(after[name])}`)
                .join(" · "),
            )
          : null,
      ),
    );
  }
}

/** @param {unknown} value */
function said(value) {
  if (typeof value !== "number") return valueText(value);
  return value > 1e12 ? moment(value) : String(Math.round(value * 100) / 100);
}
