// The devices that share the memory.

import { call } from "../../api.js";
import { counted, dotted, moment } from "../../format.js";
import { h, plainButton } from "../../html.js";

/** @typedef {import("../../../api_types").SyncAnswer} SyncAnswer */

/** @param {import("../../app.js").Page} page @param {SyncAnswer} answer @param {(answer: SyncAnswer) => void} draw */
export function devicesPanel(page, answer, draw) {
  const exchange = async () => {
    try {
      draw(await call("POST /v1/sync/exchange", {}));
    } catch (error) {
      page.fail(error);
    }
  };
  const head = h(
    "header.row",
    h("h2.grow", "Devices"),
    answer.shared && !page.isReadOnly ? plainButton("Exchange now", () => void exchange()) : null,
  );
  if (!answer.shared) {
    return [
      head,
      h("p", "This memory is on one device. Two devices keep one memory through a folder that both have."),
      h("pre.command", h("code", "mnemo sync init FOLDER")),
    ];
  }
  return [
    head,
    answer.problem ? h("p.warn", { role: "status" }, `⚠ ${answer.problem}`) : null,
    h("ul.plain", (answer.devices ?? []).map(deviceRow)),
    h(
      "p.meta",
      dotted(
        answer.exchanged_at ? `last exchange ${moment(answer.exchanged_at)}` : "no exchange since the start",
        answer.unsent ? `${counted(answer.unsent, "change")} not in the folder yet` : "",
        answer.runs_cycles ? "this one consolidates" : "another one consolidates",
      ),
    ),
  ];
}

/** @param {import("../../../api_types").SyncDevice} device */
function deviceRow(device) {
  const state = device.is_this
    ? "this one"
    : device.removed
      ? "removed"
      : `${counted(device.read ?? 0, "change")} merged`;
  return h(
    "li",
    h("p.row", h("span.grow", { dir: "auto" }, device.name || device.id), state),
    device.problem ? h("p.warn", `⚠ ${device.problem}`) : null,
    device.waiting ? h("p.meta", device.waiting) : null,
  );
}
