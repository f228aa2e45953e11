// Why a hit is where it is: the shares of its score as bars, what they make, and how the list came to be.

import { count, signed } from "../../format.js";
import { h } from "../../html.js";

/** @typedef {import("../../../api_types").CandidateTrace} Candidate */

export const GROUPS = /** @type {const} */ (["word", "sense", "text", "near", "time"]);
/** @type {Record<typeof GROUPS[number], string>} */
const GROUP_WORDS = {
  word: "in common",
  sense: "close in meaning",
  text: "reads like an answer",
  near: "what is next to it",
  time: "newer or older",
};

/**
 * @param {Candidate} mine
 * @param {Candidate | undefined} other
 * @param {number} index
 * @param {number} score
 * @param {number | undefined} otherScore
 */
export function whyBars(mine, other, index, score, otherScore) {
  const own = groupsOf(mine);
  if (!own) return h("p.meta", "The shares of this ranker are not summed by kind.");
  const theirs = other ? groupsOf(other) : null;
  const scale = Math.max(0.01, ...GROUPS.flatMap((name) => [Math.abs(own[name] ?? 0), Math.abs(theirs?.[name] ?? 0)]));
  const total = (/** @type {Partial<Record<string, number | null>>} */ groups) =>
    GROUPS.reduce((sum, name) => sum + (groups[name] ?? 0), 0);
  return h(
    "section.why-bars",
    GROUPS.map((name) => {
      const value = own[name];
      const tick = theirs?.[name];
      return h(
        "div.why-bar",
        h("span", name, h("span.meta", ` ${GROUP_WORDS[name]}`)),
        h(
          "span.axis",
          value === null || value === undefined ? null : half(value / scale),
          tick === null || tick === undefined
            ? null
            : h("i.tick", { style: { "inset-inline-start": `${50 + (50 * tick) / scale}%` } }),
        ),
        h("span.value", value === null || value === undefined ? "–" : signed(value)),
      );
    }),
    h(
      "div.why-bar",
      h("span", "all together"),
      h("span.legend", `▮ hit ${index + 1}`, theirs ? ` ❘ hit ${index}` : ""),
      h("span.value", h("b", signed(total(own)))),
    ),
    h(
      "p.meta",
      `${signed(total(own))} makes a score of ${score.toFixed(2)}`,
      theirs && otherScore !== undefined
        ? `; hit ${index} has ${signed(total(theirs))}, which makes ${otherScore.toFixed(2)}.`
        : ".",
    ),
  );
}

/**
 * The contributions in five groups, where the daemon has summed them.
 * @param {Candidate} candidate
 * @returns {Partial<Record<string, number | null>> | null}
 */
export function groupsOf(candidate) {
  return /** @type {any} */ (candidate).groups ?? null;
}

/** @param {Candidate | undefined} candidate @param {number} scale */
export function bars(candidate, scale) {
  const groups = candidate && groupsOf(candidate);
  if (!groups) return h("span.bars");
  const words = GROUPS.map(
    (name) =>
      `${name} ${groups[name] === null || groups[name] === undefined ? "not known" : signed(groups[name] ?? 0)}`,
  ).join(", ");
  return h(
    "span.bars",
    { role: "img", "aria-label": words, title: words },
    GROUPS.map((name) => {
      const value = groups[name];
      if (value === null || value === undefined) return h("span.unknown", "–");
      const share = Math.min(1, Math.abs(value) / scale);
      return h(
        "span",
        h("i", { class: value < 0 ? "down" : "up", style: { height: `${Math.max(1, Math.round(13 * share))}px` } }),
      );
    }),
  );
}

/** @param {number} share from -1 to 1 */
function half(share) {
  const width = `${50 * Math.min(1, Math.abs(share))}%`;
  return h("i", {
    class: share < 0 ? "down" : "up",
    style: { [share < 0 ? "inset-inline-end" : "inset-inline-start"]: "50%", width },
  });
}

/**
 * Say what a score means.
 * @param {string} ranker
 * @param {number} score
 */
export function scoreWords(ranker, score) {
  if (ranker === "words") return `${Math.round(100 * score)}% of the question is in it.`;
  if (ranker !== "auto") return `A score of ${score.toFixed(2)} by the ranker ${ranker}.`;
  const shares = /** @type {[number, string][]} */ ([
    [0.9, "Nine in ten"],
    [0.75, "Three in four"],
    [0.6, "Two in three"],
    [0.42, "Nearly one in two"],
    [0.28, "One in three"],
    [0.15, "One in five"],
    [0.07, "One in ten"],
  ]);
  const share = shares.find(([least]) => score >= least)?.[1] ?? "Hardly any";
  return `${share} hits with ${score.toFixed(2)} answer the question.`;
}

/** @param {string[]} reasons */
export const sentence = (reasons) => `${reasons.join(", ").replace(/^./, (first) => first.toUpperCase())}.`;

/** @param {import("../../../api_types").RecallAnswer} answer */
export function funnel(answer) {
  const trace = /** @type {import("../../../api_types").RecallTrace} */ (answer.trace);
  const found = Object.fromEntries(trace.channels.map((each) => [each.name, each.found]));
  /** @type {[string, string][]} */
  const rows = [
    ["memories", count(trace.memories)],
    ...trace.left_out
      .filter((each) => each.count)
      .map((each) => /** @type {[string, string]} */ ([`left out: ${each.reason}`, count(-each.count)])),
    ["in question", count(trace.in_question)],
    [
      "found by words · by meaning",
      `${count(found.words ?? 0)} · ${found.vectors === undefined ? "–" : count(found.vectors)}`,
    ],
    ...Object.entries(trace.dropped).map(
      ([reason, number]) => /** @type {[string, string]} */ ([reason.replaceAll("_", " "), count(-number)]),
    ),
    ["shown", count(answer.memories.length)],
  ];
  return h(
    "dl.funnel",
    rows.map(([name, value]) => h("div", h("dt", name), h("dd", value))),
  );
}
