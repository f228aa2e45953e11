// The tokens of a text by section, and what was left out of it.

import { count } from "../../format.js";
import { h } from "../../html.js";

/** @type {Record<string, string>} */
const SECTIONS = {
  head: "Counts",
  core: "Core",
  profile: "Profile",
  recent: "Recent",
  topics: "Topics",
  triggers: "Triggers",
  others: "Written by others",
  preferences: "Instructions",
  memories: "Memories",
};
/** @type {Record<string, string>} */
const LEFT_OUT = {
  over_budget: "did not fit",
  over: "over",
  sensitive: "sensitive, not asked for",
  archived: "archived",
  superseded: "replaced by a newer one",
  older_value: "replaced by a newer one",
  namespace: "in other namespaces",
  discarded: "set aside",
  trashed: "in the trash",
  working: "working notes of a task",
  not_relevant: "say nothing about it",
  beyond_top_k: "ranked lower",
  cut: "below the cut",
  near_copy: "says the same as another",
  duplicate_content: "says the same as another",
  min_score: "score too low",
  max_chars: "did not fit",
};

/** @param {string} reason why memories are left out of a text */
export const reasonWords = (reason) => LEFT_OUT[reason] ?? reason.replaceAll("_", " ");

/** @param {import("./lines.js").Explained} explained @returns {import("../../html.js").Children} */
export function sumsOf(explained) {
  const sections = explained.sections.filter((each) => each.tokens || each.budget);
  const budget = sections.reduce((sum, each) => sum + (each.budget ?? each.tokens), 0);
  const used = sections.reduce((sum, each) => sum + each.tokens, 0);
  const shade = (/** @type {number} */ index) => ["r4", "r3", "r2", "r1"][index] ?? "none";
  /** @type {Map<string, number>} */
  const left = new Map();
  for (const section of explained.sections) {
    for (const [reason, number] of Object.entries(section.left_out)) {
      const words = reasonWords(reason);
      left.set(words, (left.get(words) ?? 0) + number);
    }
  }
  return [
    h(
      "section",
      h("h2", `${count(used)} of ${count(budget)} tokens`),
      h(
        "div.budget",
        {
          role: "img",
          "aria-label": sections.map((each) => `${SECTIONS[each.name] ?? each.name} ${count(each.tokens)}`).join(", "),
        },
        sections.map((each, index) => h("i", { class: shade(index), style: { "flex-grow": each.tokens } })),
        h("i.free", { style: { "flex-grow": Math.max(0, budget - used) } }),
      ),
      h(
        "dl.funnel",
        sections.map((each, index) =>
          h(
            "div",
            h("dt", h("i", { class: `swatch ${shade(index)}` }), SECTIONS[each.name] ?? each.name),
            h("dd", count(each.tokens), h("span.meta", each.budget ? ` / ${count(each.budget)}` : "")),
          ),
        ),
      ),
    ),
    h(
      "section",
      h("h2", "Left out"),
      left.size
        ? h(
            "dl.funnel",
            [...left].map(([words, number]) => h("div", h("dt", words), h("dd", count(number)))),
          )
        : h("p.meta", "nothing"),
    ),
  ];
}
