// The devices that share the memory.

import { call } from "../../api.js";
import { counted, moment } from "../../format.js";
import { button, h } from "../../html.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").SyncAnswer} SyncAnswer */
/** @typedef {import("../../../api_types").SyncDevice} Device */

/**
 * @param {Page} page
 * @param {SyncAnswer} answer
 * @param {(answer: SyncAnswer) => void} draw
 */
export function devicesPanel(page, answer, draw) {
  const exchange = async () => {
    try {
      draw(await call("POST /v1/sync/exchange", {}));
    } catch (error) {
      page.fail(error);
    }
  };
  const head = h(
    "header",
    { class: "row" },
    h("h2", { class: "grow" }, "Devices"),
    answer.shared && !page.isReadOnly ? button("Exchange now", "", () => void exchange(), { class: "plain" }) : null,
  );
  if (!answer.shared) {
    return [
      head,
      h("p", {}, "This memory is on one device. Two devices keep one memory through a folder that both have."),
      h("pre", { class: "command" }, h("code", {}, "mnemo sync init FOLDER")),
    ];
  }
  return [
    head,
    answer.problem ? h("p", { class: "warn", role: "status" }, `⚠ ${answer.problem}`) : null,
    h("ul", { class: "plain" }, (answer.devices ?? []).map(deviceRow)),
    h(
      "p",
      { class: "meta" },
      [
        answer.exchanged_at ? `last exchange ${moment(answer.exchanged_at)}` : "no exchange since the start",
        answer.unsent ? `${counted(answer.unsent, "change")} not in the folder yet` : "",
        answer.runs_cycles ? "this one consolidates" : "another one consolidates",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  ];
}

/** @param {Device} device */
function deviceRow(device) {
  const state = device.is_this
    ? "this one"
    : device.removed
      ? "removed"
      : `${counted(device.read ?? 0, "change")} merged`;
  return h(
    "li",
    {},
    h("p", { class: "row" }, h("span", { class: "grow", dir: "auto" }, device.name || device.id), state),
    device.problem ? h("p", { class: "warn" }, `⚠ ${device.problem}`) : null,
    device.waiting ? h("p", { class: "meta" }, device.waiting) : null,
  );
}
