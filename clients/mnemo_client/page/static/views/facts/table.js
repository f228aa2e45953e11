// The table of facts, those of a subject together.

import { heldText } from "../../fact_times.js";
import { h } from "../../html.js";

/** @typedef {import("../../../api_types").FactView} Fact */

/**
 * Return the facts by subject, those that changed last first, or by name.
 * @param {Fact[]} facts
 * @param {boolean} isByName
 */
export function bySubject(facts, isByName) {
  const groups = [...Map.groupBy(facts, (fact) => fact.subject)].map(([subject, own]) => ({
    subject,
    facts: own.sort(byTime),
    last: Math.max(...own.map((fact) => fact.valid_to ?? fact.valid_from)),
  }));
  return groups.sort(
    isByName ? (one, other) => one.subject.localeCompare(other.subject) : (one, other) => other.last - one.last,
  );
}

/** @param {Fact} one @param {Fact} other */
const byTime = (one, other) => one.predicate.localeCompare(other.predicate) || other.valid_from - one.valid_from;

const HEADS = ["subject", "says", "", "holds", "who"];

export const factHead = () =>
  h(
    "thead",
    h(
      "tr",
      { role: "row" },
      HEADS.map((name) =>
        h(
          "th",
          { role: "columnheader", class: name === "holds" ? "number" : "" },
          name || h("span.hidden", "the value"),
        ),
      ),
    ),
  );

/**
 * @param {Fact} fact
 * @param {boolean} isFirst of its subject
 * @param {boolean} isDisputed
 * @param {HTMLElement} who the cell that says who stated it
 */
export const factRow = (fact, isFirst, isDisputed, who) =>
  h(
    "tr",
    {
      role: "row",
      id: `fact-${fact.id}`,
      "data-fact": fact.id,
      "data-subject": fact.subject,
      class: [fact.status === "open" ? "" : "closed", isFirst ? "first" : ""].join(" "),
    },
    h(
      "td.subject",
      { role: "gridcell" },
      h("span", { class: isFirst ? "text" : "text hidden", dir: "auto" }, fact.subject),
    ),
    h("td.says", { role: "gridcell" }, h("span.text", { dir: "auto" }, fact.predicate)),
    h(
      "td.object",
      { role: "gridcell" },
      h("span.text", { dir: "auto" }, fact.object),
      " ",
      isDisputed ? h("span.badge.warn", "⚠ conflict") : null,
      fact.perhaps_outdated && !isDisputed ? h("span.badge.past", "perhaps no longer") : null,
      fact.status === "withdrawn" ? h("span.badge.past", "withdrawn") : null,
    ),
    h("td.number.holds", { role: "gridcell" }, heldText(fact)),
    who,
  );

const WHO = [
  ["", "+ who said it"],
  ["user", "you"],
  ["note", "notes"],
  ["agent", "agents"],
  ["import", "imports"],
  ["tool", "tools"],
];

/**
 * Return the filters of the table as chips.
 * @param {import("../../app.js").Page} page
 * @param {Fact[]} facts
 * @param {number} conflicts
 */
export function factChips(page, facts, conflicts) {
  const { params } = page.route;
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => {
    const value = params.get(name) ?? "";
    const change = () => page.set({ [name]: place.value || null });
    const place = h(
      "select",
      { class: value ? "chip on" : "chip", "aria-label": label, on: { change } },
      options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)),
    );
    return place;
  };
  const predicates = [...new Set(facts.map((fact) => fact.predicate))].sort();
  const isOnly = params.get("conflicts");
  const only = {
    type: "button",
    class: isOnly ? "chip on" : "chip",
    "aria-pressed": String(!!isOnly),
    on: { click: () => page.set({ conflicts: isOnly ? null : "1" }) },
  };
  return [
    choice("sort", "sorted by", [
      ["", "sorted by last changed"],
      ["name", "sorted by name"],
    ]),
    choice("predicate", "predicate", [["", "+ predicate"], ...predicates.map((each) => [each, each])]),
    choice("who", "who said it", WHO),
    conflicts || isOnly ? h("button", only, "conflicts only ", h("b", String(conflicts))) : null,
  ];
}
