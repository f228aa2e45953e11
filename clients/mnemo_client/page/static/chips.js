// The filters of a list, as chips in the address.

import { call } from "./api.js";
import { fill, h } from "./html.js";

/** @type {Record<string, {label: string, values?: string[]}>} by parameter of the address */
const FILTERS = {
  kind: { label: "kind", values: ["semantic", "episodic", "procedural", "working"] },
  layer: { label: "layer", values: ["buffer", "working", "core"] },
  tag: { label: "tag" },
  since: { label: "happened since" },
  until: { label: "happened until" },
  source: { label: "source" },
  trust: { label: "trust", values: ["user", "note", "agent", "import"] },
};

export class Chips {
  /** @param {import("./app.js").Page} page */
  constructor(page) {
    this.page = page;
    this.place = h("div.chips", { role: "group", "aria-label": "Filters" });
  }

  get isEmpty() {
    return Object.keys(FILTERS).every((name) => !this.page.route.params.get(name));
  }

  show() {
    const { params } = this.page.route;
    fill(
      this.place,
      Object.entries(FILTERS).map(([name, { label }]) => {
        const value = params.get(name);
        return value
          ? h(
              "span.chip.on",
              h("span.meta", label),
              ` ${value} `,
              h(
                "button.plain",
                { "aria-label": `without ${label}`, on: { click: () => this.page.set({ [name]: null }) } },
                "×",
              ),
            )
          : h(
              "button.chip",
              {
                on: {
                  click: (/** @type {Event} */ event) =>
                    void this.choose(name, /** @type {HTMLElement} */ (event.currentTarget)),
                },
              },
              `+ ${label}`,
            );
      }),
    );
  }

  clear() {
    this.page.set(Object.fromEntries(Object.keys(FILTERS).map((name) => [name, null])));
  }

  removeLast() {
    const last = Object.keys(FILTERS)
      .filter((name) => this.page.route.params.get(name))
      .at(-1);
    if (last) this.page.set({ [last]: null });
  }

  /**
   * Let the person choose or type a value in the chip's place.
   * @param {string} name
   * @param {HTMLElement} chip
   */
  async choose(name, chip) {
    const { label, values } = FILTERS[name];
    const choices =
      values ??
      (name === "tag" ? Object.keys((await call("GET /v1/tags", { namespace: this.page.oneNamespace })).tags) : []);
    const list = h(
      "datalist",
      { id: `values-${name}` },
      choices.slice(0, 500).map((value) => h("option", { value })),
    );
    const field = h("input.chip", {
      type: name === "since" || name === "until" ? "date" : "text",
      "aria-label": label,
      placeholder: label,
      list: choices.length ? list.id : null,
      dir: "auto",
    });
    let isDone = false;
    const done = (/** @type {boolean} */ isChosen) => {
      if (isDone) return;
      isDone = true;
      if (isChosen && field.value.trim()) this.page.set({ [name]: field.value.trim() });
      else this.show();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") done(true);
      if (event.key === "Escape") {
        event.stopPropagation();
        done(false);
      }
    });
    field.addEventListener("change", () => done(true));
    field.addEventListener("blur", () => done(true));
    chip.replaceWith(h("span", field, list));
    field.focus();
  }

  /** The parameters of a recall that the chips stand for. */
  filters() {
    const { params } = this.page.route;
    const many = (/** @type {string} */ name) =>
      params.get(name) ? /** @type {any[]} */ ([params.get(name)]) : undefined;
    return {
      kinds: many("kind"),
      layers: many("layer"),
      tags: many("tag"),
      sources: many("source"),
      since: params.get("since") ?? undefined,
      until: params.get("until") ?? undefined,
      trust_min: /** @type {any} */ (params.get("trust")) ?? undefined,
    };
  }
}
