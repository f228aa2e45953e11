// What waits for a person's decision, with the difference that it makes.

import { call } from "../../api.js";
import { count, counted } from "../../format.js";
import { button, fill, h } from "../../html.js";
import { commandLine, emptyState, readInto, Rows } from "../../part.js";
import { ProposalBox } from "./proposal.js";

const SHOWN = 50;
export class ReviewTab {
  /** @param {import("../../app.js").Page} page */
  constructor(page) {
    this.page = page;
    this.head = h("div.row.list-note");
    this.decided = h("ul.plain-list.decided", { "aria-label": "Decided" });
    this.list = h("div.proposals", { role: "group", "aria-label": "What waits for you" });
    this.place = h("div.review", this.head, this.decided, this.list);
    this.rows = new Rows(this.list);
    /** @type {Map<string, ProposalBox>} */
    this.boxes = new Map();
    this.total = 0;
    const onSelected = (/** @type {(box: ProposalBox) => void} */ act) => () => {
      if (page.card) return page.toast("Close the card first (Esc): y, n and e decide on the proposal behind it");
      const box = this.boxes.get(this.rows.key);
      if (box && !box.isDecided) act(box);
    };
    /** @type {Record<string, () => void>} */
    this.keys = page.isReadOnly
      ? {}
      : {
          y: onSelected((box) => void box.approve()),
          n: onSelected((box) => void box.reject()),
          e: onSelected((box) => void box.edit()),
        };
  }

  read() {
    const isFirst = !this.boxes.size;
    void readInto(
      this.page,
      isFirst ? this.list : h("div"),
      () => call("GET /v1/review", { namespace: this.page.namespace, limit: SHOWN }),
      ({ proposals, total }) => {
        this.total = total;
        this.update(proposals);
        return isFirst ? [...this.list.childNodes] : null;
      },
      "reading what waits",
    ).then(() => this.rows.keep());
  }

  get waiting() {
    return [...this.boxes.values()].filter((box) => !box.isDecided);
  }

  /**
   * Take in what waits now: nothing that is there moves, what is new comes last.
   * @param {import("../../../api_types").ProposalView[]} proposals
   */
  update(proposals) {
    const waiting = new Set(proposals.map((each) => each.id));
    for (const [id, box] of this.boxes) {
      if (waiting.has(id) || box.isDecided) continue;
      box.place.remove();
      this.boxes.delete(id);
    }
    fill(
      this.list,
      this.waiting.map((box) => box.place),
    ); // in their order, without what was said of an empty list
    for (const proposal of proposals) {
      const known = this.boxes.get(proposal.id);
      if (known) {
        known.show(proposal);
        continue;
      }
      const box = new ProposalBox(this, proposal);
      this.boxes.set(proposal.id, box);
      this.list.append(box.place);
    }
    if (!this.waiting.length) fill(this.list, this.nothing());
    this.drawHead();
  }

  open() {
    const id = this.boxes.get(this.rows.key)?.proposal.memories[0]?.id;
    if (id) this.page.set({ id });
  }

  drawHead() {
    this.list.setAttribute("role", this.waiting.length ? "list" : "group");
    const waiting = this.waiting.length;
    const more =
      this.total > SHOWN
        ? `The first ${count(waiting)} of ${count(this.total)} changes that wait for you. `
        : `${counted(waiting, "change waits", "changes wait")} for you. `;
    const key = (/** @type {string} */ name, /** @type {string} */ what) => [h("kbd", name), ` ${what} `];
    fill(
      this.head,
      waiting
        ? [
            h("span.grow", more, "Nothing happens until you say so."),
            this.page.isReadOnly
              ? null
              : h("span.meta.keys-line", key("y", "approve"), key("n", "reject"), key("e", "edit"), key("j k", "move")),
          ]
        : null,
    );
  }

  nothing() {
    const setting = "mnemo config lifecycle.review";
    return [
      emptyState(
        "All decided",
        [
          "Nothing waits for your decision. Which changes of a cycle wait is said by the setting ",
          h("code", "lifecycle.review"),
          ": ",
          h("code", "core"),
          " for those to core, ",
          h("code", "all"),
          " also for those that hide or rewrite a memory.",
        ],
        commandLine("See how it is set:", setting),
        this.page.isReadOnly
          ? null
          : h(
              "p.row",
              button("Look for something now", "", () => void this.audit()),
              h("span.meta", "an audit of core and working; it proposes, and changes nothing"),
            ),
        commandLine("The same on the command line:", "mnemo audit"),
      ),
    ];
  }

  async audit() {
    await this.page.write(async () => {
      const answer = await call("POST /v1/audit", { namespace: this.page.namespace });
      return {
        text: `Looked through ${counted(answer.reviewed, "memory", "memories")}: ${counted(answer.proposed, "new proposal")}`,
      };
    });
  }

  /**
   * Fold a decided proposal to a line at the top, and give the next one the focus. What is under the pointer stays
   * where it is, as far as the page can scroll.
   * @param {ProposalBox} box
   * @param {HTMLElement} line
   */
  fold(box, line) {
    const boxes = [...this.boxes.values()];
    const at = boxes.indexOf(box);
    const next = [...boxes.slice(at + 1), ...boxes.slice(0, at).reverse()].find((each) => !each.isDecided);
    const before = next?.place.getBoundingClientRect().top ?? 0;
    box.place.remove();
    this.decided.append(line);
    this.drawHead();
    if (next) {
      next.place.focus({ preventScroll: true });
      scrollBy(0, next.place.getBoundingClientRect().top - before);
      next.place.scrollIntoView({ block: "nearest" });
    } else {
      fill(this.list, this.nothing());
      /** @type {HTMLElement | null} */ (line.querySelector("button"))?.focus();
    }
  }

  /** @param {ProposalBox} box */
  unfold(box) {
    if (this.waiting.length === 1) fill(this.list);
    this.list.prepend(box.place);
    this.drawHead();
    box.place.focus();
  }

  current() {
    return null;
  }
  /** @param {number} delta */
  step(delta) {
    this.rows.step(delta);
  }
  back() {
    const box = [...this.boxes.values()].find((each) => each.isEditing);
    box?.endEdit();
    return box !== undefined;
  }
}
