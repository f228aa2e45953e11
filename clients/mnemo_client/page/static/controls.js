// Controls that several views share.

import { fill, h, plainButton } from "./html.js";

/**
 * A row of choices of which one holds.
 * @param {string} label
 * @param {[string, string][]} options value and name
 * @param {(value: string) => void} choose
 */
export function segments(label, options, choose) {
  const place = h("div.segments", { role: "radiogroup", "aria-label": label });
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
  const place = h("div.table-place");
  const draw = () => fill(place, place.hidden ? null : table());
  place.hidden = true;
  const toggle = plainButton("as a table", () => {
    place.hidden = !place.hidden;
    picture.hidden = !place.hidden;
    toggle.firstChild?.replaceWith(place.hidden ? "as a table" : "as a picture");
    draw();
  });
  return { place, toggle, draw };
}

/**
 * A dialog about what cannot be undone, which is not shown yet, and the place for what it says.
 * @param {string} title the id of its title
 */
export function lastingDialog(title) {
  const place = h("div");
  const dialog = h("dialog.forget", { "aria-labelledby": title, on: { close: () => dialog.remove() } }, place);
  document.body.append(dialog);
  return { dialog, place };
}

/**
 * The form of such a dialog: its button acts only once a word was typed.
 * @param {HTMLDialogElement} dialog
 * @param {string} word
 * @param {string} label of the button
 * @param {(button: HTMLButtonElement) => Promise<void>} act
 */
export function wordForm(dialog, word, label, act) {
  const submit = h("button.danger", { type: "submit", disabled: true }, label);
  const typed = () => {
    submit.disabled = field.value.trim() !== word;
  };
  const field = h("input", { type: "text", autocomplete: "off", "aria-label": `Type ${word}`, on: { input: typed } });
  const submitted = (/** @type {Event} */ event) => {
    event.preventDefault();
    void act(submit);
  };
  return h(
    "form.row",
    { on: { submit: submitted } },
    h("label.grow", h("span.meta", `Type the word ${word}`), field),
    submit,
    h("button", { on: { click: () => dialog.close() } }, "Keep it"),
  );
}

/**
 * Put a form after an element, in the place of one that stands there; it goes when it is sent.
 * @param {HTMLElement} element
 * @param {HTMLElement} labelled the field with its label
 * @param {string} verb on its button
 * @param {() => void} act
 */
export function promptAfter(element, labelled, verb, act) {
  element.parentElement?.querySelector(".prompt")?.remove();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    form.remove();
    act();
  };
  const form = h("form.prompt.row", { on: { submit } }, labelled, h("button.primary", verb));
  element.after(form);
}

/**
 * A table.
 * @param {string[]} heads of the columns; "#name" is the head of a column of numbers
 * @param {import("./html.js").Children} rows
 * @param {string} [tag]
 * @returns {HTMLTableElement}
 */
export const table = (heads, rows, tag = "table") =>
  h(
    tag,
    h(
      "thead",
      h(
        "tr",
        heads.map((head) => h(head[0] === "#" ? "th.number" : "th", { scope: "col" }, head.replace("#", ""))),
      ),
    ),
    h("tbody", rows),
  );

/**
 * A row of bars with names and numbers.
 * @param {[string, number][]} rows
 * @param {(value: number) => string} text
 */
export function barRows(rows, text) {
  const most = Math.max(1, ...rows.map(([, value]) => value));
  return h(
    "dl.bar-rows",
    rows.map(([name, value]) =>
      h(
        "div",
        h("dt", { dir: "auto" }, name),
        h("dd", h("span.bar", h("i", { style: { width: `${(100 * value) / most}%` } })), h("span.number", text(value))),
      ),
    ),
  );
}
