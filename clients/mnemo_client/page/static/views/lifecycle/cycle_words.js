// What cycles and their steps do, in words.

import { count, counted } from "../../format.js";

/** @typedef {import("../../../api_types").CycleView} Cycle */

/** @type {Record<string, string>} what a step is, by its name */
export const STEPS = {
  tags: "tags that no longer hold",
  triage: "judging what is new",
  promotion: "from buffer to working",
  cap: "limit of the buffer",
  hygiene: "what does not belong in core",
  overlap: "what says the same as another",
  gate: "gate to core",
  reconcile: "older and newer values",
  session_distillation: "notes of sessions",
  near_duplicates: "near duplicates",
  merge: "joining",
  topic_distillation: "summaries of topics",
  core_summary: "summary of core",
  decay: "fading",
  drop: "what has faded",
};

/** @type {[string, (number: number, step: string) => string][]} words for what a step counts */
export const COUNTS = [
  ["promote", (number, step) => `${count(number)} to ${step === "gate" ? "core" : "working"}`],
  ["demote", (number) => `${count(number)} out of core`],
  ["archive", (number) => `${count(number)} to archive`],
  ["activate", (number) => `${count(number)} back from archive`],
  ["absorb", (number) => `${counted(number, "near duplicate")} joined`],
  ["merge", (number) => `${count(number)} joined`],
  ["supersede", (number) => `${counted(number, "older value")} replaced`],
  ["distil", (number) => `${counted(number, "summary", "summaries")} written`],
  ["delete", (number) => `${count(number)} to the trash`],
  ["tag", (number) => `${count(number)} tagged`],
  ["retagged", (number) => `${count(number)} tagged again`],
  ["proposed", (number) => `${counted(number, "proposal")} for you`],
];

/**
 * Return what a cycle did in words: "4 to working, 2 to archive; 2 proposals for you".
 * @param {Cycle} cycle
 */
export function cycleWords(cycle) {
  const parts = COUNTS.flatMap(([name, words]) => {
    /** @type {Map<string, number>} */
    const sums = new Map();
    for (const step of cycle.steps) {
      const place = name === "promote" && step.name === "gate" ? "gate" : "";
      if (step.counts[name]) sums.set(place, (sums.get(place) ?? 0) + step.counts[name]);
    }
    return [...sums].map(([place, number]) => words(number, place));
  });
  return parts.join(", ") || "nothing to do";
}

/** @param {Cycle} cycle */
export const didSomething = (cycle) =>
  cycle.steps.some((step) => COUNTS.some(([name]) => name !== "proposed" && step.counts[name]));

/** @type {Record<string, string>} what an operation does */
export const ACTIONS = {
  promote: "Move up",
  demote: "Move out of core",
  archive: "Archive",
  activate: "Bring back from archive",
  merge: "Join two memories",
  absorb: "Keep the one that says all",
  supersede: "Replace an older value",
  distil: "Write one for many",
  delete: "Move to the trash",
  tag: "Tag",
};
