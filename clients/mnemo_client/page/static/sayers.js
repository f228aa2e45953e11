// Who said what: the memories behind a list of ids, read when they are seen and kept while the view is there.

import { ApiError, call } from "./api.js";

/** @typedef {import("../api_types").MemoryView} Memory */

const AT_A_TIME = 100; // ids in one request
const TOGETHER = 6; // requests, where each is for one

export class Sayers {
  constructor() {
    /** @type {Map<string, Memory | null>} null: it is gone */
    this.known = new Map();
    /** @type {Map<Element, string>} */
    this.waiting = new Map();
    this.hasMany = false; // the daemon answers for many ids at once
    /** @type {((element: HTMLElement, memory: Memory) => void)} */
    this.draw = () => undefined;
    this.observer = new IntersectionObserver((entries) => {
      const seen = entries.filter((each) => each.isIntersecting).map((each) => each.target);
      seen.forEach((each) => this.observer.unobserve(each));
      void this.fillIn(seen);
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
    const ids = elements.map((each) => this.waiting.get(each) ?? "").filter(Boolean);
    try {
      await this.read(ids);
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
    const missing = [...new Set(ids)].filter((id) => !this.known.has(id));
    for (let at = 0; at < missing.length && this.hasMany; at += AT_A_TIME) await this.readMany(missing.slice(at, at + AT_A_TIME));
    const left = missing.filter((id) => !this.known.has(id));
    for (let at = 0; at < left.length; at += TOGETHER) await Promise.all(left.slice(at, at + TOGETHER).map((id) => this.readOne(id)));
    return ids.flatMap((id) => this.known.get(id) ?? []);
  }

  /** @param {string[]} ids */
  async readMany(ids) {
    try {
      const request = /** @type {import("../api_types").ListQuery} */ ({ id: ids, limit: ids.length, namespace: "*" });
      const { memories } = await call("GET /v1/memories", request);
      const found = memories.filter((each) => ids.includes(each.id));
      found.forEach((each) => this.known.set(each.id, each));
      if (found.length === memories.length) ids.forEach((id) => { if (!this.known.has(id)) this.known.set(id, null); });
      else this.hasMany = false; // it does not know the filter
    } catch (error) {
      if (!(error instanceof ApiError) || error.isGone) throw error;
      this.hasMany = false;
    }
  }

  /** @param {string} id */
  async readOne(id) {
    try {
      this.known.set(id, await call("GET /v1/memories/{id}", {}, { part: id }));
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      this.known.set(id, null);
    }
  }

  stop() {
    this.observer.disconnect();
    this.waiting.clear();
  }
}
