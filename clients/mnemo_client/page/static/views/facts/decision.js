// A conflict of facts side by side, and the decision on it.

import { call } from "../../api.js";
import { heldText } from "../../fact_times.js";
import { count } from "../../format.js";
import { button, h, plainButton } from "../../html.js";
import { excerpt, trustMark, undoOf } from "../../memory.js";

/** @typedef {import("../../../api_types").FactView} Fact */
/** @typedef {import("../../../api_types").ConflictView} Conflict */
/** @typedef {import("../../../api_types").MemoryView} Memory */

const TRUST_ORDER = ["user", "note", "agent", "import", "tool"];

/**
 * Return both sides of a conflict with the sentences that state them.
 * @param {Conflict} conflict
 * @param {object} options
 * @param {(fact: Fact) => Memory | null} options.memoryOf
 * @param {string[]} options.keys of the sides, where there are two
 * @param {import("../../html.js").Children} options.next leads to the next conflict
 * @param {{keep: (fact: Fact) => void, allow: () => void, remove: (fact: Fact) => void} | null} options.act null: the
 * page is read only
 * @returns {import("../../html.js").Children}
 */
export function conflictSides({ subject, predicate, facts }, { memoryOf, keys, next, act }) {
  const best = bestSide(facts, memoryOf);
  const isPair = facts.length === 2;
  const side = (/** @type {Fact} */ fact, /** @type {number} */ at) => {
    const memory = memoryOf(fact);
    const kind = fact === best ? "primary" : "";
    return h(
      "div.conflict-side",
      h("h4.text", { dir: "auto" }, fact.object),
      memory ? h("blockquote", excerpt(memory)) : h("p.meta", "its sentence is gone"),
      h("p.meta", memory ? [trustMark(memory.trust), " · "] : null, heldText(fact)),
      act &&
        h(
          "div.actions",
          button("Keep this one", isPair ? keys[at] : "", () => act.keep(fact), { class: kind }),
          plainButton("Not a fact", () => act.remove(fact)),
        ),
    );
  };
  return [
    h(
      "div.row",
      h("h3.text", { dir: "auto" }, `${subject} ${predicate} …?`),
      h("span.badge.warn", `⚠ ${isPair ? "both" : count(facts.length)} are said to hold`),
      h("span.grow"),
      next,
    ),
    h("div.sides.box", facts.map(side)),
    act &&
      h(
        "div.row",
        h("p.meta.grow", "The other ends on the day the kept one begins; both stay in the history."),
        button(isPair ? "Both hold" : "All hold", "b", act.allow, { class: "plain" }),
      ),
  ];
}

/**
 * Keep one of several facts: the others end on the day on which it begins, or where they begin later, at once.
 * @param {Fact} kept
 * @param {Fact[]} others
 */
export async function keepFact(kept, others) {
  const at = Math.max(kept.valid_from, ...others.map((fact) => fact.valid_from));
  const { seq } = await call("POST /v1/facts/conflicts/decide", {
    namespace: kept.namespace,
    facts: [kept, ...others].map((fact) => fact.id),
    keep: kept.id,
    at,
  });
  return {
    text: `Kept: ${kept.predicate} ${kept.object}. Ended: ${others.map((fact) => fact.object).join(", ")}`,
    undo: undoOf(seq),
  };
}

/** @param {Conflict} conflict */
export async function allowBoth({ facts }) {
  const { seq } = await call("POST /v1/facts/conflicts/decide", {
    namespace: facts[0].namespace,
    facts: facts.map((fact) => fact.id),
  });
  return { text: `Both hold: ${facts.map((fact) => fact.object).join(", ")}`, undo: undoOf(seq) };
}

/**
 * Return the side that is more trusted, or the newer of equals.
 * @param {Fact[]} facts
 * @param {(fact: Fact) => Memory | null} memoryOf
 */
function bestSide(facts, memoryOf) {
  const rank = (/** @type {Fact} */ fact) => TRUST_ORDER.indexOf(memoryOf(fact)?.trust ?? "tool");
  return [...facts].sort((one, other) => rank(one) - rank(other) || other.valid_from - one.valid_from)[0];
}
