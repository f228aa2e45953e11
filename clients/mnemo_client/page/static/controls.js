// Controls that several views share.

import { button, fill, h } from "./html.js";

/**
 * A row of choices of which one holds.
 * @param {string} label
 * @param {[string, string][]} options value and name
 * @param {(value: string) => void} choose
 */
export function segments(label, options, choose) {
  const place = h("div", { class: "segments", role: "radiogroup", "aria-label": label });
  const move = (/** @type {KeyboardEvent} */ event) => {
    const delta = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!delta) return;
    event.preventDefault();
    event.stopPropagation();
    const at = options.findIndex(([value]) => value === current);
    const next = options[(at + delta + options.length) % options.length][0];
    choose(next);
    /** @type {HTMLElement | null} */ (place.querySelector("[aria-checked=true]"))?.focus();
  };
  place.addEventListener("keydown", move);
  let current = "";
  return {
    place,
    /** @param {string} value */
    show: (value) => {
      if (value === current) return;
      current = value;
      const hadFocus = place.contains(document.activeElement);
      fill(
        place,
        options.map(([each, name]) =>
          h(
            "button",
            {
              type: "button",
              role: "radio",
              "aria-checked": String(each === value),
              tabindex: each === value ? 0 : -1,
              on: { click: () => choose(each) },
            },
            name,
          ),
        ),
      );
      if (hadFocus) /** @type {HTMLElement | null} */ (place.querySelector("[aria-checked=true]"))?.focus();
    },
  };
}

/**
 * A picture that can be read as a table instead. The table is made only when it is asked for.
 * @param {HTMLElement} picture
 * @param {() => HTMLElement} table
 */
export function withTable(picture, table) {
  const place = h("div", { class: "table-place" });
  const draw = () => fill(place, place.hidden ? null : table());
  place.hidden = true;
  const toggle = button(
    "as a table",
    "",
    () => {
      place.hidden = !place.hidden;
      picture.hidden = !place.hidden;
      toggle.firstChild?.replaceWith(place.hidden ? "as a table" : "as a picture");
      draw();
    },
    { class: "plain" },
  );
  return { place, toggle, draw };
}

/**
 * A row of bars with names and numbers.
 * @param {[string, number][]} rows
 * @param {(value: number) => string} text
 */
export function barRows(rows, text) {
  const most = Math.max(1, ...rows.map(([, value]) => value));
  return h(
    "dl",
    { class: "bar-rows" },
    rows.map(([name, value]) =>
      h(
        "div",
        {},
        h("dt", { dir: "auto" }, name),
        h(
          "dd",
          {},
          h("span", { class: "bar" }, h("i", { style: { width: `${(100 * value) / most}%` } })),
          h("span", { class: "number" }, text(value)),
        ),
      ),
    ),
  );
}
