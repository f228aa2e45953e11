// The same change of many memories, a few at a time.

import { ApiError, call } from "./api.js";

/** @typedef {import("../api_types").MemoryView} Memory */

const TOGETHER = 4;

/**
 * @param {Memory} memory
 * @param {string} tag
 */
export async function tagged(memory, tag) {
  if (memory.tags.includes(tag)) return null;
  const patch = { tags: [...memory.tags, tag], if_version: memory.version };
  return (await call("PATCH /v1/memories/{id}", patch, { part: memory.id })).seq;
}

/**
 * @param {Memory} memory
 * @param {import("../api_types").MoveRequest} to
 */
export async function moved(memory, to) {
  return (await call("POST /v1/memories/{id}/move", { ...to, if_version: memory.version }, { part: memory.id })).seq;
}

/**
 * Do something with each, a few at a time. Returns the messages of those that failed.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => Promise<void>} act
 */
export async function together(items, act) {
  /** @type {string[]} */
  const failed = [];
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      try {
        await act(item);
      } catch (error) {
        if (!(error instanceof ApiError) || error.isGone) throw error;
        failed.push(error.message);
      }
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return failed;
}
