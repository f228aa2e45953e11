// Who said what: the memories behind a list of ids, read when they are seen and kept while the view is there.

import { ApiError, call } from "./api.js";

/** @typedef {import("../api_types").MemoryView} Memory */

const AT_A_TIME = 100; // ids in one request

export class Sayers {
  constructor() {
    /** @type {Map<string, Memory | null>} null: it is gone */
    this.known = new Map();
    /** @type {Map<Element, string>} */
    this.waiting = new Map();
    /** @type {((element: HTMLElement, memory: Memory) => void)} */
    this.draw = () => undefined;
    this.observer = new IntersectionObserver((entries) => {
      const seen = entries.filter((each) => each.isIntersecting).map((each) => each.target);
      seen.forEach((each) => this.observer.unobserve(each));
      if (seen.length) void this.fillIn(seen);
    });
  }

  /**
   * Draw into an element when it is seen.
   * @param {HTMLElement} element
   * @param {string} id
   */
  watch(element, id) {
    const memory = this.known.get(id);
    if (memory) return this.draw(element, memory);
    this.waiting.set(element, id);
    this.observer.observe(element);
  }

  /** @param {Element[]} elements */
  async fillIn(elements) {
    try {
      await this.read(elements.map((each) => this.waiting.get(each) ?? "").filter(Boolean));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return; // what they show is left out
    }
    for (const element of elements) {
      const memory = this.known.get(this.waiting.get(element) ?? "");
      this.waiting.delete(element);
      if (memory) this.draw(/** @type {HTMLElement} */ (element), memory);
    }
  }

  /**
   * Return the memories of ids, in their order; those that are gone are left out.
   * @param {string[]} ids
   * @returns {Promise<Memory[]>}
   */
  async read(ids) {
    const wanted = [...new Set(ids)].filter((id) => !this.known.has(id));
    for (let at = 0; at < wanted.length; at += AT_A_TIME) {
      const { memories, missing } = await call("GET /v1/memories", { id: wanted.slice(at, at + AT_A_TIME) });
      memories.forEach((each) => this.known.set(each.id, each));
      missing.forEach((id) => this.known.set(id, null));
    }
    return ids.flatMap((id) => this.known.get(id) ?? []);
  }

  stop() {
    this.observer.disconnect();
    this.waiting.clear();
  }
}
