// When facts hold, in words and as bars.

import { day, month } from "./format.js";
import { h } from "./html.js";

/** @typedef {import("../api_types").FactView} Fact */

/** @param {Fact} fact */
export function heldText(fact) {
  if (fact.valid_to !== null) return h("span", `${day(fact.valid_from)} – ${day(fact.valid_to)}`);
  return h("span", h("span.since", "since "), day(fact.valid_from));
}

/**
 * Return when each fact held, as bars over one axis of time.
 * @param {Fact[]} history
 * @param {Set<string>} disputed
 */
export function heldBars(history, disputed) {
  const now = Date.now();
  const first = Math.min(...history.map((fact) => fact.valid_from));
  const span = Math.max(1, now - first);
  const share = (/** @type {number} */ at) => `${Math.min(99.5, Math.max(0, (100 * (at - first)) / span))}%`;
  const rows = [...history]
    .sort((one, other) => one.valid_from - other.valid_from)
    .map((fact) => {
      const words = `${fact.predicate} ${fact.object}`;
      const kind = disputed.has(fact.id) ? "disputed" : fact.status === "open" ? "" : "ended";
      return h(
        "li.held",
        h("span.held-name.line-clamp", { dir: "auto", title: words }, words),
        h(
          "span.held-track",
          h("i", {
            class: kind,
            style: {
              "inset-inline-start": share(fact.valid_from),
              "inset-inline-end": `calc(100% - ${share(fact.valid_to ?? now)})`,
            },
          }),
          h(
            "span.hidden",
            fact.valid_to ? `${day(fact.valid_from)} to ${day(fact.valid_to)}` : `since ${day(fact.valid_from)}`,
            kind === "disputed" ? ", in conflict" : "",
          ),
        ),
      );
    });
  return h(
    "div",
    h("ul.plain-list", rows),
    h(
      "div.held.held-axis.meta",
      h("span.held-name"),
      h("span.held-track", h("span", month(first)), h("span", month(first + span / 2)), h("span", "now")),
    ),
    history.some((fact) => disputed.has(fact.id)) ? h("p.meta", "dashed: in conflict") : null,
  );
}
