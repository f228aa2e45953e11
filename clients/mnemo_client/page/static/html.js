// Elements from values. Text becomes text nodes, so that no memory is ever markup.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Child | Children[]} Children */
/** @typedef {Record<string, any>} Attributes */
/**
 * A function that makes an element of `name.class.class`, with attributes, which may be left out, and children.
 * @template Elements
 * @typedef {{
 *   <T extends string>(tag: T, attributes: Attributes, ...children: Children[]): ElementOf<T, Elements>;
 *   <T extends string>(tag: T, ...children: Children[]): ElementOf<T, Elements>;
 * }} Maker
 */
/**
 * @template {string} T
 * @template Elements
 * @typedef {T extends keyof Elements ? Elements[T]
 *   : T extends `${infer Name extends keyof Elements & string}.${string}` ? Elements[Name] : never} ElementOf
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return a new element: `h("p.meta", "text")`, `h("input.chip", { type: "text" })`. `on` maps event names to handlers,
 * `style` properties to values; an attribute that is null, undefined or false is left out, and one that is true is
 * empty. A link leads only to a place on this page. A button submits no form unless its type says so.
 */
export const h = /** @type {Maker<HTMLElementTagNameMap>} */ (
  (/** @type {string} */ tag, /** @type {any[]} */ ...given) => {
    const [name, ...classes] = tag.split(".");
    const element = document.createElement(name);
    if (element instanceof HTMLButtonElement) element.type = "button";
    return filled(element, classes, given);
  }
);

/** Return a new element of a picture. */
export const s = /** @type {Maker<SVGElementTagNameMap>} */ (
  (/** @type {string} */ tag, /** @type {any[]} */ ...given) => {
    const [name, ...classes] = tag.split(".");
    return filled(document.createElementNS(SVG, name), classes, given);
  }
);

/**
 * @param {Element} element
 * @param {string[]} classes
 * @param {any[]} given attributes, which may be absent, and children
 */
function filled(element, classes, given) {
  const hasAttributes = given[0]?.constructor === Object;
  if (classes.length) element.setAttribute("class", classes.join(" "));
  if (hasAttributes) setAttributes(element, given[0]);
  element.append(...nodesOf(hasAttributes ? given.slice(1) : given));
  return element;
}

/**
 * Replace all children.
 * @param {Element} element
 * @param {...Children} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodesOf(children));
}

/** @param {Element} element @param {Attributes} attributes */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === "style") {
      const { style } = /** @type {HTMLElement} */ (element);
      for (const [property, each] of Object.entries(value)) style.setProperty(property, String(each));
    } else if (name === "href" && !String(value).startsWith("#")) {
      throw new Error(`a link may lead to this page only: ${value}`);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/** @param {Children[]} children @returns {(Node | string)[]} */
function nodesOf(children) {
  return /** @type {Child[]} */ (children.flat(/** @type {1} */ (Infinity)))
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : shown(String(child))));
}

// What changes the direction of the text around it, or is not seen at all.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/**
 * Return the text with signs for the characters that cannot be seen.
 * @param {string} text
 */
export function shown(text) {
  return text.replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\u237d";
  });
}

/**
 * Return a text of the memory in a direction of its own, with the marked parts emphasised. Marks are offsets in
 * characters (code points), as the daemon counts.
 * @param {string} text
 * @param {[number, number][]} [marks]
 * @param {Attributes} [attributes]
 */
export function memoryText(text, marks = [], attributes = {}) {
  const characters = marks.length ? Array.from(text) : [];
  /** @type {Children[]} */
  const parts = [];
  let at = 0;
  for (const [begin, end] of marks) {
    if (begin < at || end <= begin) continue;
    parts.push(characters.slice(at, begin).join(""), h("mark", characters.slice(begin, end).join("")));
    at = end;
  }
  parts.push(marks.length ? characters.slice(at).join("") : text);
  return h("span", { class: "text", dir: "auto", ...attributes }, ...parts);
}

/**
 * Return a button with its key printed on it.
 * @param {string} label
 * @param {string} key
 * @param {() => void} action
 * @param {Attributes} [attributes]
 */
export function button(label, key, action, attributes = {}) {
  return h(
    "button",
    { "aria-keyshortcuts": key || null, ...attributes, on: { click: action } },
    label,
    key ? h("kbd", key) : null,
  );
}

/**
 * Return a button without a key that looks like a link.
 * @param {string} label
 * @param {() => void} action
 */
export const plainButton = (label, action) => button(label, "", action, { class: "plain" });
