// The frame of the page: navigation, addresses, keys, messages, and the state of the daemon.

import { ApiError, ask, call, follow } from "./api.js";
import { openCard } from "./card.js";
import { count, counted, memories as memoriesText } from "./format.js";
import { button, fill, h } from "./html.js";
import { showKeys } from "./keys.js";

/**
 * What the address says: `#/lifecycle/review?ns=work` is view "lifecycle", parts ["review"], and the parameters.
 * @typedef {{view: string, parts: string[], params: URLSearchParams}} Route
 */

/**
 * A view on the screen. `show` is called for each address of the view; `keys` are its own single keys; `current`
 * returns the memory that keys such as `e` and `p` are for; `refresh` reads again what is shown, in place.
 * @typedef {object} ShownView
 * @property {(route: Route) => void} show
 * @property {Record<string, () => void>} [keys]
 * @property {() => string | null} [current]
 * @property {(delta: number) => void} [step]
 * @property {() => void} [open]
 * @property {() => void} [refresh]
 * @property {(id: string) => import("./html.js").Children[]} [why] why the view shows a memory where it does
 * @property {(name: string, data: any) => void} [heard]
 * @property {() => boolean} [back]
 * @property {() => void} [leave]
 */

/**
 * @typedef {object} View
 * @property {string} title
 * @property {(place: HTMLElement, page: Page) => ShownView} mount
 */

export const VIEWS = /** @type {const} */ ([
  ["search", "Search"],
  ["timeline", "Timeline"],
  ["map", "Map"],
  ["topics", "Topics"],
  ["facts", "Facts"],
  ["conversations", "Conversations"],
  ["lifecycle", "Lifecycle"],
  ["agent", "What an agent sees"],
  ["machine", "Machine"],
]);

const ALL_NAMESPACES = "*";
const TOAST_MS = 8000;
const STATUS_MS = 15_000;
const GATHER_MS = 1000; // changes that come together are taken in together

/** What views and the card use of the frame. */
export class Page {
  constructor() {
    /** @type {Route} */
    this.route = { view: "search", parts: [], params: new URLSearchParams() };
    /** @type {import("../api_types").StatusAnswer | null} */
    this.status = null;
    this.isReadOnly = false;
    this.version = "";
    this.isDaemonThere = true;
    this.hasSingleKeys = localStorage.getItem("single-keys") !== "off";
    /** @type {ShownView | null} */
    this.shown = null;
    /** @type {import("./card.js").Card | null} */
    this.card = null;
    this.place = element("main");
    /** Above whichever view is shown; status and events may draw it before the first one is. */
    this.notice = h("div", { id: "notice" });
    /** @type {(() => void) | null} */
    this.undo = null;
  }

  /** The namespace that is looked at; "*" for all. */
  get namespace() {
    return this.route.params.get("ns") ?? ALL_NAMESPACES;
  }

  /** The namespace for routes that know one at a time: undefined for the default. */
  get oneNamespace() {
    return this.namespace === ALL_NAMESPACES ? undefined : this.namespace;
  }

  /** True if the store itself is not well: a daemon without an embedding model calls itself degraded too. */
  get isDegraded() {
    const { status } = this;
    return (
      status?.state === "degraded" &&
      (status.models.embedding?.state === "ready" || status.reasons.some((each) => !/embedding model/.test(each)))
    );
  }

  /**
   * Go to another address. The chosen namespace stays.
   * @param {string} path such as "lifecycle/review"
   * @param {Record<string, string | null | undefined>} [params]
   */
  go(path, params = {}) {
    location.hash = addressOf(path, { ns: this.route.params.get("ns"), ...params });
  }

  /**
   * Change parameters of the present address, without a step in the browser's history.
   * @param {Record<string, string | null | undefined>} changes null and "" remove one
   */
  set(changes) {
    const params = { ...Object.fromEntries(this.route.params), ...changes };
    const hash = addressOf([this.route.view, ...this.route.parts].join("/"), params);
    if (hash === location.hash) return;
    history.replaceState(null, "", hash);
    this.route = routeOf(hash);
    this.shown?.show(this.route);
    this.showCard();
    this.drawNavigation();
  }

  /**
   * Open the card of a memory over the view.
   * @param {string} id
   */
  open(id) {
    openCard(this, id);
  }

  /** Have the card open that the address names, or none. */
  showCard() {
    const id = this.route.params.get("id");
    if (!id) this.card?.close();
    else if (this.card?.id !== id) this.open(id);
  }

  /**
   * Say what was done, for eight seconds, with a way to take it back.
   * @param {string} text
   * @param {(() => void) | null} [undo]
   */
  toast(text, undo = null) {
    this.undo = undo;
    showToast(this, text);
  }

  /**
   * Carry out a write and say so. What fails is said as well, and nothing is done twice.
   * @param {() => Promise<{text: string, undo?: (() => Promise<any>) | null}>} write
   */
  async write(write) {
    try {
      const { text, undo = null } = await write();
      const takeBack = undo && (() => this.write(async () => (await undo(), { text: "Taken back" })));
      this.toast(text, takeBack);
      this.refresh();
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * Say an error that has no better place. A request that was aborted is none.
   * @param {unknown} error
   */
  fail(error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    if (error instanceof ApiError && error.isGone) this.noteDaemon(false);
    if (!(error instanceof Error)) throw error;
    this.toast(error.message);
    if (!(error instanceof ApiError)) throw error;
  }

  /** Read again what is seen, in place. */
  refresh() {
    this.shown?.refresh?.();
    this.card?.refresh();
    void readStatus(this);
  }

  /** @param {boolean} isThere */
  noteDaemon(isThere) {
    if (isThere === this.isDaemonThere) return;
    this.isDaemonThere = isThere;
    document.body.classList.toggle("offline", !isThere);
    this.drawNotice();
    if (isThere) this.refresh();
    this.drawNavigation();
  }

  /** Draw the line that says what is missing, if anything is. */
  drawNotice() {
    const place = this.notice;
    if (!this.isDaemonThere) {
      fill(
        place,
        h(
          "p.offline-line",
          { role: "alert" },
          "⚠ The daemon is not running; trying again. Start it with ",
          h("code", "mnemo up"),
          ". What is shown here is what it answered last.",
        ),
      );
      return;
    }
    const status = this.status;
    if (status && this.isDegraded) {
      fill(
        place,
        h(
          "p.note-line.warn",
          { role: "status" },
          `⚠ The store is degraded: ${status.reasons.join("; ")}. `,
          "Reading goes on; what is written is kept in the journal.",
        ),
      );
    } else if (status && status.models.embedding?.state !== "ready") {
      const model = status.models.embedding;
      const progress = status.views.vectors;
      fill(
        place,
        h(
          "p.note-line",
          { role: "status" },
          "◐ Found by words only: ",
          model?.state === "loading" ? "the embedding model is being loaded" : "there is no embedding model",
          progress && progress.share > 0 && progress.share < 1
            ? `, ${Math.round(progress.share * 100)}% have vectors`
            : "",
          model?.state === "absent"
            ? h("span", ". Get one with ", h("code", "mnemo models pull all-MiniLM-L6-v2"))
            : null,
          ".",
        ),
      );
    } else {
      fill(place);
    }
  }

  /** Draw the navigation: views, namespace, and the state of the daemon. */
  drawNavigation() {
    const status = this.status;
    const waiting = status?.lifecycle?.proposals ?? 0;
    const links = VIEWS.map(([name, title], index) =>
      h(
        "li",
        h(
          "a",
          {
            href: addressOf(name, { ns: this.route.params.get("ns") }),
            "aria-current": name === this.route.view ? "page" : null,
            "aria-keyshortcuts": String(index + 1),
          },
          h("span.grow", title),
          name === "lifecycle" && waiting ? h("span.count", { title: "wait for your decision" }, count(waiting)) : null,
          h("kbd", String(index + 1)),
        ),
      ),
    );
    const known = Object.keys(status?.namespaces ?? {}).sort();
    if (this.namespace !== ALL_NAMESPACES && !known.includes(this.namespace)) known.push(this.namespace);
    const choice = h(
      "select",
      {
        "aria-label": "Namespace",
        on: { change: () => this.set({ ns: choice.value === ALL_NAMESPACES ? null : choice.value }) },
      },
      h("option", { value: ALL_NAMESPACES }, "all namespaces"),
      known.map((name) => h("option", { value: name, selected: name === this.namespace, dir: "auto" }, name)),
    );
    const words = !this.isDaemonThere
      ? "⚠ not running"
      : !status
        ? ""
        : this.isDegraded
          ? "⚠ degraded"
          : status.models.embedding?.state === "ready"
            ? "● ready"
            : "◐ by words only";
    fill(
      element("nav"),
      h(
        "header",
        h("strong", "mnemo"),
        this.isReadOnly ? h("span.badge", "read only") : null,
        button("☰", "", () => document.body.classList.toggle("menu"), { class: "menu-button", "aria-label": "Menu" }),
      ),
      choice,
      h("ul", links),
      h(
        "footer",
        h("p", h("span", { class: this.isDegraded || !this.isDaemonThere ? "warn" : "ok" }, words)),
        status ? h("p", memoriesText(status.memories)) : null,
        status?.notes.roots.length ? h("p", `${counted(status.notes.roots.length, "folder")} watched`) : null,
        h(
          "p.row",
          button("keys", "?", () => showKeys(this), { class: "plain" }),
          button(themeName(), "\\", () => switchTheme(this), { class: "plain" }),
        ),
      ),
    );
  }
}

// Addresses

/** @param {string} path @param {Record<string, string | null | undefined>} params */
export function addressOf(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  return `#/${path}${String(query) ? `?${query}` : ""}`;
}

/** @param {string} hash @returns {Route} */
function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, ...parts] = path.split("/").filter(Boolean).map(decodePart);
  const known = VIEWS.some(([name]) => name === view);
  return { view: known ? view : "search", parts: known ? parts : [], params: new URLSearchParams(query) };
}

/** @param {string} part */
function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {Page} page */
async function followAddress(page) {
  const route = routeOf(location.hash);
  const isOther = route.view !== page.route.view || !page.shown;
  page.route = route;
  document.body.classList.remove("menu");
  page.drawNavigation();
  if (isOther) {
    page.card?.close();
    page.shown?.leave?.();
    const module = await import(`./views/${route.view}.js`);
    if (page.route !== route) return; // another address came meanwhile
    const view = /** @type {View} */ (module.default);
    document.title = `${view.title} · mnemo`;
    const place = h("section", { class: `view ${route.view}` });
    fill(page.place, page.notice, place);
    page.drawNotice();
    page.shown = view.mount(place, page);
  }
  page.shown?.show(route);
  page.showCard();
  if (isOther && document.activeElement === document.body) page.place.focus({ preventScroll: true });
}

// Keys

// Edit, pin, tag, more, editor, trash, versions: they open the card, and do that on it.
const CARD_KEYS = ["e", "p", "g", "m", "o", "x", "h"];

/** @param {Page} page @param {KeyboardEvent} event */
function press(page, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const isField = target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
  if (event.key === "Escape") {
    if (document.querySelector("dialog[open]")) return; // it closes by itself
    if (isField) target.blur();
    else if (page.card) page.card.close();
    else page.shown?.back?.();
    return;
  }
  if (isField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (!page.hasSingleKeys && event.key.length === 1) return;
  const own = page.card?.keys[event.key] ?? page.shown?.keys?.[event.key];
  const action = own ?? commonAction(page, event.key, target);
  if (!action) return;
  event.preventDefault();
  action();
}

/**
 * @param {Page} page
 * @param {string} key
 * @param {HTMLElement} target
 * @returns {(() => void) | null}
 */
function commonAction(page, key, target) {
  const number = Number(key);
  if (number >= 1 && number <= VIEWS.length) return () => page.go(VIEWS[number - 1][0]);
  const current = () => page.card?.id ?? page.shown?.current?.() ?? null;
  switch (key) {
    case "/": {
      const field = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
      return field ? () => field.select() : () => page.go("search");
    }
    case "j":
    case "ArrowDown":
      return key === "j" || target.closest("[role=listbox]") ? () => page.shown?.step?.(1) : null;
    case "k":
    case "ArrowUp":
      return key === "k" || target.closest("[role=listbox]") ? () => page.shown?.step?.(-1) : null;
    case "Enter":
      return target.closest("a, button, summary") ? null : () => page.shown?.open?.();
    case "u":
      return () =>
        page.undo
          ? page.undo()
          : page.toast("There is nothing of this page to take back; older changes: Lifecycle › Changes");
    case "\\":
      return () => switchTheme(page);
    case "?":
      return () => showKeys(page);
    default: {
      const id = CARD_KEYS.includes(key) && current();
      return id
        ? () => {
            page.set({ id });
            openCard(page, id, key);
          }
        : null;
    }
  }
}

// Messages

/** @type {ReturnType<typeof setTimeout> | undefined} */
let toastTimer;

/** @param {Page} page @param {string} text */
function showToast(page, text) {
  clearTimeout(toastTimer);
  const end = () => fill(element("toast-place"));
  const wait = () => {
    clearTimeout(toastTimer);
    toastTimer = setTimeout(end, TOAST_MS);
  };
  const stop = () => clearTimeout(toastTimer);
  const undo = page.undo;
  fill(
    element("toast-place"),
    h(
      "div.toast",
      { on: { pointerenter: stop, pointerleave: wait, focusin: stop, focusout: wait } },
      h("span", text),
      undo ? button("Undo", "u", () => undo()) : null,
      h("button.plain", { "aria-label": "Close", on: { click: end } }, "×"),
    ),
  );
  wait();
}

// Theme

const themeName = () =>
  document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

/** @param {Page} page */
function switchTheme(page) {
  const next = themeName() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  page.drawNavigation();
}

// The daemon

/** @param {Page} page */
async function readStatus(page) {
  try {
    page.status = await call("GET /v1/status", {});
    page.noteDaemon(true);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) return signedOut();
    page.noteDaemon(false);
  }
  page.drawNavigation();
  page.drawNotice();
}

/** @param {Page} page */
function followEvents(page) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let gathering;
  follow(
    (name, data) => {
      if (name === "progress" && page.status?.views[data.view]) {
        Object.assign(page.status.views[data.view], { share: data.share });
        page.drawNotice();
      }
      page.shown?.heard?.(name, data);
      if (name !== "change" || gathering) return;
      gathering = setTimeout(() => {
        gathering = undefined;
        void readStatus(page);
      }, GATHER_MS);
    },
    (isThere) => {
      if (isThere) void readStatus(page);
      else page.noteDaemon(false);
    },
  );
}

function signedOut() {
  fill(
    element("main"),
    h(
      "section.view.empty",
      h("h1", "This page is not signed in"),
      h(
        "p",
        "Its address is valid once, for one browser, and for ten minutes. A new one comes from ",
        h("code", "mnemo ui"),
        ".",
      ),
    ),
  );
}

/** Exchange the secret of the address for a cookie, which no script can read. */
async function signIn() {
  const secret = /^#secret=(.+)$/.exec(location.hash)?.[1];
  if (!secret) return true;
  history.replaceState(null, "", "#/search");
  try {
    await ask("/page/session", { secret });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
  return true;
}

/** @param {string} id */
function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

async function start() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  await signIn();
  const page = new Page();
  try {
    const info = await ask("/page/info");
    page.isReadOnly = info.read_only;
    page.version = info.version;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return signedOut();
    if (!(error instanceof ApiError)) throw error;
  }
  document.body.classList.toggle("read-only", page.isReadOnly);
  addEventListener("hashchange", () => void followAddress(page));
  addEventListener("keydown", (event) => press(page, event));
  await followAddress(page);
  followEvents(page);
  setInterval(() => {
    if (!document.hidden) void readStatus(page);
  }, STATUS_MS);
}

void start();
