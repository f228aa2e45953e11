// The daemon's /v1, by way of the page's own process.

/** @typedef {import("../api_types").Operations} Operations */

/** An error that the daemon or the page's process answered with. */
export class ApiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {number} status 0: nothing answered
   * @param {any} [body]
   */
  constructor(code, message, status, body = null) {
    super(message);
    this.code = code;
    this.status = status;
    this.body = body;
  }

  /** True if the daemon is not there at present. */
  get isGone() {
    return this.status === 0 || this.code === "unreachable" || this.code === "starting";
  }
}

/**
 * Send a request and return its answer. Raises ApiError; a request that was aborted raises DOMException.
 * @template {keyof Operations} K
 * @param {K} operation method and path, as in the operation table
 * @param {Operations[K]["request"]} request the body, or the query string of GET and DELETE
 * @param {{part?: string, signal?: AbortSignal, agent?: string}} [options] part: what stands for {id} in the path;
 * agent: the program as which is asked, which sees less than a person
 * @returns {Promise<Operations[K]["answer"]>}
 */
export async function call(operation, request, { part = "", signal, agent } = {}) {
  const [method, path] = operation.split(" ");
  let target = path.replace(/\{\w+\}/, encodeURIComponent(part));
  /** @type {Record<string, string>} */
  const headers = agent ? { "X-Mnemo-Agent": agent } : {};
  let body;
  if (method === "GET" || method === "DELETE") {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request)) {
      if (value === null || value === undefined || value === "") continue;
      for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
    }
    if (String(query)) target += `?${query}`;
  } else {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(request);
  }
  return read(await sent(target, { method, headers, body, signal }));
}

/** Of a request that outlives its page: browsers take 64 KiB, and a character has up to four bytes. */
const KEPT_ALIVE_CHARS_MAX = 16_000;

/**
 * Send a request to the page's own process.
 * @param {string} path
 * @param {object} [request] absent: GET
 * @returns {Promise<any>}
 */
export async function ask(path, request) {
  const body = request && JSON.stringify(request);
  // A draft is kept even if the page is left or loaded again meanwhile.
  const keepalive = !!body && body.length <= KEPT_ALIVE_CHARS_MAX;
  return read(await sent(path, body ? { method: "POST", body, keepalive } : {}));
}

/** @param {string} target @param {RequestInit} options */
async function sent(target, options) {
  try {
    return await fetch(target, options);
  } catch (error) {
    if (error instanceof DOMException) throw error;
    throw new ApiError("page_gone", "This page's own process has ended; start it again with: mnemo ui", 0);
  }
}

/** @param {Response} response */
async function read(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error instanceof DOMException) throw error; // aborted while it was read: nobody wants it any more
    if (response.ok) throw new ApiError("cut", "The answer ended too early; try again", response.status);
  }
  if (response.ok) return body;
  const error = body?.error ?? { code: String(response.status), message: response.statusText };
  throw new ApiError(error.code, sentence(error.message, error.hint), response.status, error);
}

/** @param {string} message @param {string} [hint] */
const sentence = (message, hint) => message.charAt(0).toUpperCase() + message.slice(1) + (hint ? `; ${hint}` : "");

/** @typedef {"start" | "change" | "job" | "progress" | "operation" | "gap" | "end"} EventName */
const EVENT_NAMES = /** @type {EventName[]} */ (["start", "change", "job", "progress", "operation", "gap", "end"]);
const RETRY_MS = 2000;

/**
 * Follow the daemon's events for as long as the page is open. `heard` gets each one; `connected` gets whether the
 * stream is there.
 * @param {(name: EventName, data: any) => void} heard
 * @param {(isThere: boolean) => void} connected
 */
export function follow(heard, connected) {
  const source = new EventSource("/v1/events?namespace=*");
  source.onopen = () => connected(true);
  source.onerror = () => {
    connected(false);
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    setTimeout(() => follow(heard, connected), RETRY_MS);
  };
  for (const name of EVENT_NAMES) {
    source.addEventListener(name, (event) => heard(name, JSON.parse(/** @type {MessageEvent} */ (event).data)));
  }
}
