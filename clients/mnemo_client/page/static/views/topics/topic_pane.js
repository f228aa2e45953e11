// One topic: its growth, its members by nearness, and its name.

import { monthBars } from "../../charts.js";
import { ApiError, call } from "../../api.js";
import { promptAfter } from "../../controls.js";
import { count, counted, dotted, memories as memoriesText } from "../../format.js";
import { button, fill, h, plainButton } from "../../html.js";
import { excerpt, memoryList, memoryRow, metaLine, undoOf } from "../../memory.js";
import { nameOf } from "./tree.js";

/** @typedef {import("../../../api_types").TopicView} Topic */

const STANDING = 5; // memories that stand for a topic
const MEMBERS = 50; // more of them at a time

export class TopicPane {
  /**
   * @param {import("../../app.js").Page} page
   * @param {Topic} topic
   * @param {Topic[]} path the topics above it, the highest first
   * @param {number} below topics below it
   * @param {(topic: Topic) => void} choose
   */
  constructor(page, topic, path, below, choose) {
    this.page = page;
    this.topic = topic;
    /** @type {string | null} */
    this.cursor = null;
    this.members = memoryList(page, "Members of the topic");
    this.more = h("p");
    this.months = h("div");
    this.title = h(
      "div.view-head",
      h("h2.pane-title.text", { dir: "auto" }, nameOf(topic)),
      h("span.grow"),
      page.isReadOnly ? null : button("Rename", "e", () => this.rename()),
    );
    this.place = h(
      "div.topic-pane",
      this.title,
      h(
        "p.meta",
        path.map((above) => [button(nameOf(above), "", () => choose(above), { class: "plain", dir: "auto" }), " › "]),
        dotted(memoriesText(topic.count), below ? `${counted(below, "topic")} below` : ""),
      ),
      this.months,
      h("section", h("h3", "Its members"), this.members.list, this.more),
    );
    void this.read(STANDING);
  }

  /** @param {number} limit */
  async read(limit) {
    const { topic, members } = this;
    try {
      const { topics } = await call("POST /v1/topics/expand", {
        ids: [topic.id],
        limit,
        cursor: this.cursor,
        namespace: topic.namespace,
        sort: "nearest",
        months: !this.cursor,
      });
      if (!this.place.isConnected || !topics[0]) return;
      const { memories, nearness, months } = topics[0];
      if (!this.cursor) fill(this.months, monthBars(months));
      this.cursor = topics[0].cursor;
      const near = { class: "score", title: "how near it lies to the middle of the topic" };
      members.list.append(
        ...memories.map((memory, index) =>
          memoryRow(
            memory,
            {},
            h("div.body", excerpt(memory), metaLine(memory)),
            h("span", near, (nearness[index] ?? 0).toFixed(2)),
          ),
        ),
      );
      members.keep();
      const left = topic.count - members.list.childElementCount;
      const words = left > MEMBERS ? `${MEMBERS} more of ${count(topic.count)}` : `All ${count(topic.count)}`;
      fill(this.more, this.cursor && left > 0 ? plainButton(words, () => void this.read(MEMBERS)) : null);
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  /** Ask for a name of the person's own; none at all gives it back to the daemon. */
  rename() {
    const { topic } = this;
    const field = h("input", {
      type: "text",
      value: topic.name,
      "aria-label": "Name of the topic; none for the one that the daemon gives",
      maxlength: 80,
      dir: "auto",
    });
    promptAfter(this.title, h("span.grow", field), "Save", () => {
      const asked = { name: field.value.trim() || null, namespace: topic.namespace };
      void this.page.write(async () => {
        const { seq, topic: after } = await call("POST /v1/topics/{id}/rename", asked, { part: topic.id });
        return { text: `${nameOf(topic)} is now ${after.name}`, undo: undoOf(seq) };
      });
    });
    field.select();
  }
}
