// What was deleted, and what was set aside when it came in; both come back.

import { call } from "../../api.js";
import { lastingDialog, wordForm } from "../../controls.js";
import { bytes, count, counted, day, memories as memoriesText, moment } from "../../format.js";
import { button, fill, h, memoryText, plainButton } from "../../html.js";
import { excerpt, memoryLink, metaLine, restore } from "../../memory.js";
import { commandLine, emptyState, MemoryRows, readInto } from "../../part.js";

/** @typedef {import("../../app.js").Page} Page */

const SHOWN = 25;
const DAY_MS = 86_400_000;
const ASIDE_DAYS = 30; // after which a rejected text is dropped

/** A list of memories that are not among the others, each of which comes back. */
class AwayTab extends MemoryRows {
  /** @param {Page} page @param {string} label */
  constructor(page, label) {
    super(page, h("div", { role: "group", "aria-label": label }));
    this.head = h("div.row.list-note");
    this.more = h("div");
    this.place = h("div.away", this.head, this.list, this.more);
    this.shown = SHOWN;
    /** @type {Record<string, () => void>} */
    this.keys = page.isReadOnly ? {} : { r: () => this.restore() };
  }

  restore() {
    const id = this.current();
    if (id) void restore(this.page, id);
  }

  /** @param {import("../../../api_types").MemoryView} memory @param {string} why @param {string} until */
  row(memory, why, until) {
    const who = h("span");
    void call("GET /v1/memories/{id}/history", { limit: 1 }, { part: memory.id }).then(
      ({ versions }) => {
        if (versions[0]) who.textContent = `by ${versions[0].by || "you"}, ${moment(versions[0].at)}`;
      },
      () => null,
    );
    const text = memory.tags.includes("sensitive")
      ? excerpt(memory)
      : memoryLink(this.page, memory.id, memoryText(memory.content));
    return h(
      "div.hit.gone",
      { role: "listitem", tabindex: -1, "data-row": memory.id, "data-id": memory.id },
      h(
        "div.body",
        text,
        metaLine(memory),
        h("span.meta", why ? h("span", { dir: "auto" }, why.replaceAll("_", " ")) : null, who, h("span", until)),
      ),
      this.page.isReadOnly
        ? null
        : button("Restore", "r", () => void restore(this.page, memory.id), { class: "plain" }),
    );
  }

  /** @param {string | null} cursor @param {() => void} read */
  drawMore(cursor, read) {
    fill(
      this.more,
      cursor
        ? [
            plainButton(`${SHOWN} more`, () => {
              this.shown += SHOWN;
              read();
            }),
            h("span.meta", ` the first ${count(this.shown)}`),
          ]
        : null,
    );
  }

  /** @param {boolean} isEmpty */
  drawn(isEmpty) {
    this.list.setAttribute("role", isEmpty ? "group" : "list");
  }
}

export class TrashTab extends AwayTab {
  /** @param {Page} page */
  constructor(page) {
    super(page, "Trash");
  }

  read() {
    void readInto(
      this.page,
      this.list,
      () =>
        Promise.all([
          call("GET /v1/trash", { namespace: this.page.namespace, limit: this.shown }),
          call("GET /v1/config", {}),
        ]),
      ([{ entries, cursor }, { values }]) => {
        const keep = Number(values.find((each) => each.key === "trash.keep_days")?.value ?? 0);
        this.drawMore(cursor, () => this.read());
        this.drawHead(entries.length, keep);
        this.drawn(!entries.length);
        if (!entries.length) {
          return emptyState(
            "The trash is empty",
            "What is deleted stays here until it is restored or the trash is emptied.",
            commandLine("Delete a memory with x, or on the command line:", "mnemo rm ID"),
          );
        }
        return entries.map((entry) => this.row(entry.memory, entry.why, left(entry, keep)));
      },
      "reading the trash",
    ).then(() => this.rows.keep());
  }

  /**
   * @param {number} number
   * @param {number} keep in days; 0: for ever
   */
  drawHead(number, keep) {
    const { status } = this.page;
    fill(
      this.head,
      number
        ? [
            h(
              "span.grow",
              keep
                ? `What is here is dropped for good after ${counted(keep, "day")}.`
                : "What is here stays until you restore it or empty the trash.",
              " To forget one at once: ",
              h("kbd", "m"),
              ".",
            ),
            this.page.isReadOnly ? null : button("Empty the trash …", "", () => void this.empty(), { class: "danger" }),
          ]
        : null,
      number && status ? h("span.meta", bytes(status.trash.bytes ?? 0)) : null,
    );
  }

  /** Empty the trash, which cannot be undone, once the word was typed. */
  async empty() {
    const { page } = this;
    const { dialog, place } = lastingDialog("empty-title");
    const act = async () => {
      dialog.close();
      await page.write(async () => {
        const { dropped } = await call("DELETE /v1/trash", { confirm: true, namespace: page.namespace });
        return { text: `The trash is empty: ${memoriesText(dropped)} dropped for good` };
      });
    };
    try {
      const plan = await call("DELETE /v1/trash", { namespace: page.namespace });
      fill(
        place,
        h("h2", { id: "empty-title" }, "Empty the trash"),
        h(
          "p",
          `${memoriesText(plan.dropped)} with ${bytes(plan.bytes)} are dropped for good`,
          page.namespace === "*" ? ", of all namespaces." : `, of ${page.namespace}.`,
        ),
        h("p.meta", "This cannot be undone. Backups keep what they have."),
        wordForm(dialog, "empty", "Empty", act),
      );
      dialog.showModal();
      place.querySelector("input")?.focus();
    } catch (error) {
      dialog.remove();
      page.fail(error);
    }
  }
}

export class AsideTab extends AwayTab {
  /** @param {Page} page */
  constructor(page) {
    super(page, "Set aside");
  }

  read() {
    void readInto(
      this.page,
      this.list,
      () => call("GET /v1/trash", { namespace: this.page.namespace, limit: this.shown, set_aside: true }),
      ({ memories, entries, cursor }) => {
        const why = new Map(entries.map((entry) => [entry.memory.id, entry.why]));
        this.drawMore(cursor, () => this.read());
        fill(
          this.head,
          memories.length
            ? h(
                "span",
                "What came in and was not taken up: it is found by nobody. ",
                this.page.isReadOnly ? "" : "Restore what is worth keeping.",
              )
            : null,
        );
        this.drawn(!memories.length);
        if (!memories.length) {
          return emptyState(
            "Nothing is set aside",
            "What comes in and says nothing that lasts is set aside here for 30 days, in case that was wrong.",
            commandLine("See why a text is set aside:", "mnemo ingest FILE --explain"),
          );
        }
        return memories.map((memory) =>
          this.row(
            memory,
            why.get(memory.id) ?? "judged to say nothing that lasts",
            until(memory.modified_at + ASIDE_DAYS * DAY_MS),
          ),
        );
      },
      "reading what is set aside",
    ).then(() => this.rows.keep());
  }
}

/**
 * @param {import("../../../api_types").TrashView} entry
 * @param {number} keep in days; 0: for ever
 */
const left = (entry, keep) => (keep ? until(entry.at + keep * DAY_MS) : "kept until the trash is emptied");

/** @param {number} at */
function until(at) {
  const days = Math.ceil((at - Date.now()) / DAY_MS);
  return days > 0 ? `${counted(days, "day")} left, until ${day(at)}` : "goes with the next clearing";
}
