// What lies in the lasso: how many, of what, as a list; and what can be done with all of them.

import { call } from "../../api.js";
import { promptAfter } from "../../controls.js";
import { count, counted, memories as memoriesText } from "../../format.js";
import { button, fill, h, plainButton } from "../../html.js";
import { memoryList, moved, plainRow, tagged, together } from "../../memory.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").MemoryView} Memory */

const SEEN_FIRST = 5;
const LISTED = 20; // at a time
const WRITTEN_MAX = 500; // memories that are tagged or moved at once
const LAYERS = ["buffer", "working", "core"];

export class LassoPane {
  /** @param {Page} page @param {import("../../sayers.js").Sayers} sayers @param {() => void} clear */
  constructor(page, sayers, clear) {
    this.page = page;
    this.sayers = sayers;
    this.clear = clear;
    /** @type {string[]} */
    this.ids = [];
    this.isListed = false;
    this.members = memoryList(page, "Memories in the lasso");
    this.more = h("p");
    this.actions = h("div.actions");
    this.place = h("div.lasso-part");
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    if (this.page.isReadOnly || !this.ids.length) return {};
    return { g: () => this.askTag(), m: () => this.askMove() };
  }

  get hasFocus() {
    return this.members.list.contains(document.activeElement);
  }

  /**
   * Show these memories, by the names of what they are of.
   * @param {string[]} ids
   * @param {string[]} names of each one's category
   */
  show(ids, names) {
    this.ids = ids;
    this.isListed = false;
    if (!ids.length) return fill(this.place);
    const parts = [...Map.groupBy(names, (name) => name)]
      .sort((one, other) => other[1].length - one[1].length)
      .map(([name, all]) => `${name} ${count(all.length)}`);
    const rest = parts.length > 3 ? ` · ${counted(parts.length - 3, "other")}` : "";
    this.members = memoryList(this.page, "Memories in the lasso");
    this.more = h("p");
    this.drawActions();
    fill(
      this.place,
      h(
        "div.row",
        h("h2.pane-title.grow", `${count(ids.length)} in the lasso`),
        button("Clear", "Esc", this.clear, { class: "plain" }),
      ),
      h("p.meta", parts.slice(0, 3).join(" · "), rest),
      this.actions,
      this.members.list,
      this.more,
    );
    void this.readMembers(SEEN_FIRST);
  }

  drawActions() {
    const { g: tag, m: move } = this.keys;
    fill(
      this.actions,
      button("As a list", "Enter", () => this.list()),
      tag ? button("Tag…", "g", tag) : null,
      move ? button("Move…", "m", move) : null,
    );
  }

  list() {
    this.isListed = true;
    void this.readMembers(LISTED).then(() => {
      this.members.list.focus();
      this.members.step(0);
    });
  }

  /** @param {number} number more of them */
  async readMembers(number) {
    const { list } = this.members;
    const from = list.childElementCount;
    try {
      const memories = await this.sayers.read(this.ids.slice(from, from + number));
      if (list !== this.members.list || list.childElementCount !== from) return;
      list.append(...memories.map((memory) => plainRow(memory)));
      this.members.keep();
      const left = this.ids.length - list.childElementCount;
      fill(this.more, left > 0 ? plainButton(`${count(left)} more`, () => void this.readMembers(LISTED)) : null);
    } catch (error) {
      this.page.fail(error);
    }
  }

  askTag() {
    const field = h("input", { type: "text", "aria-label": "Tag for all of them", placeholder: "tag", dir: "auto" });
    this.askOnce(field, "Tag", () => {
      const tag = field.value.trim().replace(/^#/, "");
      if (tag) void this.writeAll((memory) => tagged(memory, tag), `tagged #${tag}`);
    });
  }

  askMove() {
    const option = (/** @type {string} */ value, /** @type {string} */ name) =>
      h("option", { value, dir: "auto" }, name);
    const namespaces = Object.keys(this.page.status?.namespaces ?? {}).sort();
    const field = h("select", { "aria-label": "Where all of them are to go" }, [
      ...LAYERS.map((layer) => option(`layer ${layer}`, `to ${layer}`)),
      option("archived", "to the archive"),
      ...namespaces.map((name) => option(`namespace ${name}`, `to namespace ${name}`)),
    ]);
    this.askOnce(field, "Move", () => {
      const [kind, ...rest] = field.value.split(" ");
      const to = kind === "archived" ? { archived: true } : { [kind]: rest.join(" ") };
      void this.writeAll((memory) => moved(memory, to), `moved ${field.selectedOptions[0].text}`);
    });
  }

  /** @param {HTMLInputElement | HTMLSelectElement} field @param {string} verb @param {() => void} act */
  askOnce(field, verb, act) {
    const number = count(Math.min(WRITTEN_MAX, this.ids.length));
    promptAfter(this.actions, h("span.grow", field), `${verb} ${number}`, act);
    field.focus();
  }

  /**
   * Change all of them, and say how many; one undo takes all back.
   * @param {(memory: Memory) => Promise<number | null>} write returns the number of the change, if there is one
   * @param {string} done
   */
  async writeAll(write, done) {
    const ids = this.ids.slice(0, WRITTEN_MAX);
    const progress = h("p.meta", { role: "status" });
    fill(this.actions, progress);
    let reached = 0;
    await this.page.write(async () => {
      ids.forEach((id) => this.sayers.known.delete(id));
      const memories = await this.sayers.read(ids);
      /** @type {number[]} */
      const seqs = [];
      const failed = await together(memories, async (memory) => {
        reached += 1;
        progress.textContent = `${count(reached)} of ${count(memories.length)} …`;
        const seq = await write(memory);
        if (seq) seqs.push(seq);
      });
      const left = this.ids.length - ids.length;
      const text = [
        `${memoriesText(seqs.length)} ${done}`,
        failed.length ? `${count(failed.length)} could not be: ${failed[0]}` : "",
        left > 0 ? `${count(left)} were left, ${count(WRITTEN_MAX)} at once are the most` : "",
      ];
      const undo = async () => {
        for (const seq of seqs.sort((one, other) => other - one)) await call("POST /v1/undo", { seq });
      };
      return { text: text.filter(Boolean).join("; "), undo: seqs.length ? undo : null };
    });
    this.drawActions();
  }
}
