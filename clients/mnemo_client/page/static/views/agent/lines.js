// The text that an agent is given as a table of its lines, and what is below the cut.

import { table } from "../../controls.js";
import { count, counted, dotted } from "../../format.js";
import { h, plainButton } from "../../html.js";
import { reasonWords } from "./sums.js";

/**
 * @typedef {{text: string, section: string, tokens: number, memory: string | null, more: string[],
 *   reason: string | null, weight: number | null, condensed: boolean}} Line
 */
/** @typedef {{name: string, tokens: number, budget: number | null, left_out: Record<string, number>}} Section */
/** @typedef {import("../../../api_types").TextExplanation} Explained */
/** @typedef {{text: string, explained: Explained, namespace: string, isPrompt: boolean, abstained: boolean}} Given */

const LINES_FIRST = 8; // of a section; the rest is folded

/**
 * @param {Given} given
 * @param {Set<string>} unfolded sections that are shown whole
 * @param {(section: string) => void} unfold
 */
export function linesTable(given, unfolded, unfold) {
  const { lines } = given.explained;
  const isHead = (/** @type {number} */ at) =>
    lines[at].memory === null && lines[at].section !== (lines[at - 1]?.section ?? "");
  const isFoldable = (/** @type {number} */ at) =>
    lines[at].memory !== null || (!isHead(at) && lines[at].section === "topics");
  /** @type {Map<string, number>} */
  const seen = new Map();
  /** @type {Set<string>} */
  const folded = new Set();
  const body = lines.map((line, at) => {
    if (isFoldable(at)) seen.set(line.section, (seen.get(line.section) ?? 0) + 1);
    const isShown = !isFoldable(at) || unfolded.has(line.section) || (seen.get(line.section) ?? 0) <= LINES_FIRST;
    if (isShown) return lineRow(given, line, at, isHead(at));
    if (folded.has(line.section)) return null;
    folded.add(line.section);
    const rest = lines.filter((each, other) => other >= at && each.section === line.section && isFoldable(other));
    const tokens = rest.reduce((sum, each) => sum + each.tokens, 0);
    const more = plainButton(counted(rest.length, "more line"), () => unfold(line.section));
    return h("tr", h("td"), h("td", more), h("td.number", count(tokens)), h("td"));
  });
  return table(["#line", "the text, line by line, as it is given", "#tokens", "why it is there"], body, "table.lines");
}

/**
 * @param {Given} given
 * @param {Line} line
 * @param {number} at
 * @param {boolean} isHead
 */
function lineRow(given, line, at, isHead) {
  const section = isHead ? given.explained.sections.find((each) => each.name === line.section) : undefined;
  const budget = section?.budget ? `${count(section.budget)} at most` : "";
  const overBudget = section?.left_out.over_budget ? `${count(section.left_out.over_budget)} did not fit` : "";
  const tokens = section ? section.tokens : line.tokens;
  const weight =
    line.weight === null || line.section === "preferences"
      ? ""
      : ` · ${given.isPrompt ? "score" : "weight"} ${line.weight.toFixed(2)}`;
  return h(
    "tr",
    {
      class: isHead ? "head" : "",
      tabindex: line.memory ? -1 : null,
      "data-row": line.memory ? String(at) : null,
      "data-id": line.memory,
    },
    h("td.number.meta", String(at + 1)),
    h("td", h("code.text", { dir: "auto" }, line.text)),
    h("td.number", { "data-label": "tokens" }, tokens ? count(tokens) : ""),
    h(
      "td.why",
      h("span.warning"),
      line.reason ?? dotted(budget, overBudget),
      h("span.meta", weight, line.more.length ? ` · one line for ${count(line.more.length + 1)}` : ""),
      line.condensed ? h("span.badge", "shortened") : null,
    ),
  );
}

/**
 * Return what was found and is not given, each with its reason. The texts are filled in when they are read.
 * @param {Given} given
 */
export function belowTheCut({ explained: { lines, below } }) {
  if (!below.length) return null;
  const last = lines.findLast((each) => each.section === "memories" && each.weight !== null)?.weight;
  const words = last == null ? "nothing is given" : `the last that is given has ${last.toFixed(2)}`;
  return h(
    "section.below-cut",
    h("h2", `the cut: what is below it is not given; ${words}`),
    h(
      "ul.plain-list",
      below.map((each, at) =>
        h(
          "li.row.below-row",
          { tabindex: -1, "data-row": `below ${at}`, "data-id": each.id },
          h("span.number", each.score.toFixed(2)),
          h("span.grow.line-clamp"),
          h("span.meta.why", reasonWords(each.reason)),
        ),
      ),
    ),
  );
}
