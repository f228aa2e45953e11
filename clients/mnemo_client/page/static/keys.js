// The dialog that lists the keys.

import { h } from "./html.js";

/** @type {[string, [string, string][]][]} */
const KEYS = [
  [
    "Everywhere",
    [
      ["1 … 9", "the views"],
      ["/", "search"],
      ["\\", "light or dark"],
      ["?", "this list"],
      ["Esc", "one step back: field, card, filters"],
      ["u", "take the last change back"],
    ],
  ],
  [
    "In a list",
    [
      ["j k", "next, previous"],
      ["Enter", "open"],
      ["Space", "check, for several at once"],
      [".", "take in what is new"],
    ],
  ],
  [
    "A memory",
    [
      ["e", "edit; a note opens in your editor"],
      ["p", "pin"],
      ["g", "tags"],
      ["m", "more: move, forget"],
      ["o", "open in the editor"],
      ["x", "to the trash"],
      ["h", "versions"],
    ],
  ],
  [
    "Search",
    [
      ["a", "answer"],
      ["t", "as of a day"],
      ["=", "past and now side by side"],
      ["i", "why it is here"],
    ],
  ],
  [
    "Timeline",
    [
      ["← → ↑ ↓", "a day, a week"],
      ["[ ]", "the day before, after, with something"],
    ],
  ],
  [
    "Map",
    [
      ["l", "lasso"],
      ["+ −", "zoom"],
      ["← → ↑ ↓", "the nearest point"],
    ],
  ],
  ["Topics", [["← →", "close, open"]]],
  [
    "Facts",
    [
      ["← →", "keep the left, the right one"],
      ["b", "both hold"],
    ],
  ],
  [
    "Conversations",
    [
      ["f", "file the turns now"],
      ["c", "chat"],
    ],
  ],
  [
    "Lifecycle",
    [
      ["r", "run a cycle, restore"],
      ["z", "take back the cycle, the change"],
      ["← →", "the layer beside"],
      ["y n e", "approve, reject, edit the result"],
    ],
  ],
  ["What an agent sees", [["y", "copy the text"]]],
  ["Machine", [["s", "stop and go on with the events"]]],
];

/** @param {import("./app.js").Page} page */
export function showKeys(page) {
  const single = h("input", {
    type: "checkbox",
    checked: page.hasSingleKeys,
    on: {
      change: () => {
        page.hasSingleKeys = single.checked;
        localStorage.setItem("single-keys", single.checked ? "on" : "off");
      },
    },
  });
  const dialog = h(
    "dialog.keys",
    { "aria-labelledby": "keys-title", on: { close: () => dialog.remove() } },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "keys-title" }, "Keys"),
      h("button.plain", { type: "submit", "aria-label": "Close" }, "×", h("kbd", "Esc")),
    ),
    h(
      "div.columns",
      KEYS.map(([title, keys]) =>
        h(
          "section",
          h("h3", title),
          h(
            "dl",
            keys.map(([key, what]) => h("div", h("dt", h("kbd", key)), h("dd", what))),
          ),
        ),
      ),
    ),
    h("label", single, " single keys work (they never do while a field has the focus)"),
  );
  document.body.append(dialog);
  dialog.showModal();
}
