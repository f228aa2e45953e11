// Models, settings, namespaces, and the use of the language model.

import { call } from "../../api.js";
import { addressOf } from "../../app.js";
import { bar, moreButton } from "../../charts.js";
import { table } from "../../controls.js";
import { bytes, count, counted, dotted, duration, moment, valueText } from "../../format.js";
import { h, plainButton } from "../../html.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").ModelsAnswer} ModelsAnswer */
/** @typedef {import("../../../api_types").ModelStatus} ModelStatus */
/** @typedef {import("../../../api_types").ConfigAnswer} ConfigAnswer */

const NAMESPACES_FIRST = 6;
const SENTENCES = { embedding: "finds by meaning", llm: "answers in sentences, joins and merges memories" };

/**
 * @param {Page} page
 * @param {ModelsAnswer} answer
 * @param {boolean} isAll
 * @param {(isAll: boolean) => void} draw
 */
export function modelsPanel(page, answer, isAll, draw) {
  const row = (/** @type {"embedding" | "llm"} */ role, /** @type {ModelStatus} */ model) => {
    const known = answer.models.find((each) => each.name === model.name);
    const state =
      model.state === "ready"
        ? h("span.ok", "✓ ready")
        : model.state === "failed"
          ? h("span.warn", "⚠ failed")
          : h("span.meta", model.state === "absent" ? "none" : "is being loaded");
    const about = dotted(
      SENTENCES[role],
      model.dimensions ? `${model.dimensions} numbers` : "",
      model.form ?? "",
      known ? bytes(known.bytes) : "",
      model.reason ?? "",
      model.hint ?? "",
    );
    return h(
      "li",
      h(
        "p.row",
        h("span.grow", { dir: "auto" }, model.name ?? (role === "llm" ? "no language model" : "no embedding model")),
        state,
      ),
      h("p.meta", about),
    );
  };
  const others = answer.models.filter(
    (each) => !each.in_use && each.name !== answer.embedding.name && each.name !== answer.llm.name,
  );
  return [
    h("header.row", h("h2.grow", "Models"), moreButton("Change …", draw, isAll)),
    h(
      "ul.plain-list.lines-list",
      row("embedding", answer.embedding),
      row("llm", answer.llm),
      isAll
        ? others.map((each) =>
            h(
              "li",
              h(
                "p.row",
                h("span.grow", { dir: "auto" }, each.name),
                each.installed
                  ? page.isReadOnly
                    ? null
                    : plainButton("Use", () => void use(page, each, answer))
                  : null,
              ),
              h("p.meta", dotted(each.role, bytes(each.bytes), each.licence, each.languages)),
              each.installed ? null : h("code", `mnemo models pull ${each.name}`),
            ),
          )
        : null,
    ),
  ];
}

/** @param {Page} page @param {ModelsAnswer["models"][number]} model @param {ModelsAnswer} answer */
async function use(page, model, answer) {
  const former = model.role === "llm" ? answer.llm.name : answer.embedding.name;
  await page.write(async () => {
    await call("POST /v1/models/use", { name: model.name });
    return {
      text: `In use: ${model.name}${model.role === "embedding" ? "; vectors are computed again in the background" : ""}`,
      undo: former ? () => call("POST /v1/models/use", { name: former }) : null,
    };
  });
}

/** @param {ConfigAnswer} config @param {boolean} isAll @param {(isAll: boolean) => void} draw */
export function settingsPanel({ values, file }, isAll, draw) {
  const own = values.filter((each) => each.origin !== "default");
  const shown = isAll ? values : own;
  return [
    h(
      "header.row",
      h("h2", "Settings"),
      h("span.meta.grow", `${count(own.length)} of ${count(values.length)} are yours`),
      moreButton("All", draw, isAll),
    ),
    shown.length
      ? h(
          "ul.plain-list.lines-list.settings",
          shown.map((each) =>
            h(
              "li",
              h(
                "p.row",
                h("code.text.grow", each.key),
                h("span.text.value", { dir: "auto" }, each.value === "" ? "empty" : valueText(each.value)),
              ),
              h("p.meta", { title: each.origin }, each.origin.split("/").pop() ?? ""),
            ),
          ),
        )
      : h("p.meta", "All are at their defaults."),
    h("p.meta", "Change them in ", h("code.text", file), ", or see them with ", h("code", "mnemo config"), "."),
  ];
}

/**
 * @param {Record<string, number>} namespaces
 * @param {boolean} isAll
 * @param {(isAll: boolean) => void} draw
 */
export function namespacesPanel(namespaces, isAll, draw) {
  const sorted = Object.entries(namespaces).sort((one, other) => other[1] - one[1]);
  const shown = isAll ? sorted : sorted.slice(0, NAMESPACES_FIRST);
  const rest = sorted.slice(shown.length);
  const others = rest.reduce((sum, [, number]) => sum + number, 0);
  const most = Math.max(1, others, ...sorted.map(([, number]) => number));
  const row = (/** @type {Node | string} */ name, /** @type {number} */ number) =>
    h(
      "li",
      h("span.name", { dir: "auto" }, name),
      h("span.middle.grow", bar(number / most)),
      h("span.state", count(number)),
    );
  return [
    h(
      "header.row",
      h("h2.grow", "Namespaces"),
      sorted.length > NAMESPACES_FIRST ? moreButton("All", draw, isAll) : null,
    ),
    sorted.length
      ? h(
          "ul.plain-list.jobs.namespaces",
          shown.map(([name, number]) => row(h("a", { href: addressOf("search", { ns: name }) }, name), number)),
          rest.length ? row(counted(rest.length, "other"), others) : null,
        )
      : h("p.meta", "None has a memory yet. The first is made by the first memory."),
  ];
}

/** @param {import("../../../api_types").LlmUsageAnswer} answer @param {ModelStatus} llm */
export function usagePanel({ usage, since }, llm) {
  const head = h(
    "header.row",
    h("h2.grow", "Language model use"),
    usage.length ? h("span.meta", since ? `since ${moment(since)}` : "since the beginning") : null,
  );
  if (!usage.length) {
    return [
      head,
      h(
        "p",
        llm.state === "absent"
          ? "None is chosen. Every task uses its method without one; joining and merging are left out."
          : "It was not asked for anything yet.",
      ),
      llm.state === "absent"
        ? h("pre.command", h("code", "mnemo models"))
        : h("p.meta", "What each task would gain: ", h("code", "mnemo llm")),
    ];
  }
  return [
    head,
    table(
      ["task", "#calls", "#taken", "#tokens", "#a call"],
      usage.map((each) =>
        h(
          "tr",
          h("td", each.site.replaceAll("_", " ")),
          h("td.number", { "data-label": "calls" }, count(each.calls)),
          h(
            "td.number",
            {
              "data-label": "taken",
              title: Object.entries(each.rejections)
                .map(([reason, number]) => `${count(number)} × ${reason}`)
                .join(", "),
            },
            count(each.outcomes.answered ?? 0),
          ),
          h("td.number", { "data-label": "tokens" }, count(each.tokens_in + each.tokens_out)),
          h("td.number", { "data-label": "a call" }, duration(each.milliseconds / Math.max(1, each.calls) / 1000)),
        ),
      ),
    ),
  ];
}
