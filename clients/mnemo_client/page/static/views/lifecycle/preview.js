// What the next cycle would do, operation by operation.

import { call } from "../../api.js";
import { difference } from "../../diff.js";
import { count } from "../../format.js";
import { h, memoryText } from "../../html.js";
import { memoryLink } from "../../memory.js";
import { MemoryRows, readInto } from "../../part.js";
import { stepTable } from "./cycles.js";
import { ACTIONS, cycleWords, STEPS } from "./cycle_words.js";

export class PreviewTab extends MemoryRows {
  /** @param {import("../../app.js").Page} page */
  constructor(page) {
    super(page, h("div.preview"));
    this.place = this.list;
  }

  read() {
    void readInto(
      this.page,
      this.place,
      () => call("POST /v1/consolidate", { namespace: this.page.namespace, dry_run: true }),
      (answer) => {
        const head = h(
          "p.list-note",
          h("b", `The next cycle would do this: ${cycleWords(answer.cycle)}. `),
          "Nothing was changed. ",
          answer.total > answer.operations.length
            ? `The first ${count(answer.operations.length)} of ${count(answer.total)} operations:`
            : "",
        );
        if (!answer.operations.length) {
          return [
            head,
            h("p.meta", "No memory would move: nothing is old enough, used enough or faded enough. "),
            stepTable(answer.cycle),
          ];
        }
        return [
          head,
          h(
            "div",
            { role: "list", "aria-label": "Operations" },
            answer.operations.map((each, index) => this.row(each, index)),
          ),
          h("h2", "Its steps"),
          stepTable(answer.cycle),
        ];
      },
      "planning the next cycle",
    ).then(() => this.rows.keep());
  }

  /** @param {import("../../../api_types").CycleOperationView} operation @param {number} index */
  row(operation, index) {
    const { texts, text } = operation;
    return h(
      "div.operation",
      { role: "listitem", tabindex: -1, "data-row": String(index), "data-id": operation.ids[0] },
      h(
        "p.meta",
        h("b", ACTIONS[operation.action] ?? operation.action),
        operation.action === "promote" ? ` to ${operation.step === "gate" ? "core" : "working"}` : "",
        ` · ${operation.reason || (STEPS[operation.step] ?? operation.step)}`,
      ),
      texts.map((each, at) =>
        each === null
          ? null
          : h(
              "p",
              text && at === 0 ? difference(each, text) : memoryLink(this.page, operation.ids[at], memoryText(each)),
            ),
      ),
      text && texts[0] === null ? h("p", h("span.hidden", "added: "), h("ins", { dir: "auto" }, text)) : null,
    );
  }

  back() {
    this.page.go("lifecycle");
    return true;
  }
}
