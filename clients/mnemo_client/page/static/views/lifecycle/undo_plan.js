// Taking changes back: what it would do is shown before it is done.

import { ApiError, call } from "../../api.js";
import { count, counted, memories as memoriesText, moment } from "../../format.js";
import { button, fill, h, memoryText, plainButton } from "../../html.js";
import { excerpt, takeBack } from "../../memory.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").UndoAnswer} UndoAnswer */
/** @typedef {{id: string, seq: number, at: number, by: string, what: string}} Later */

const MEMORIES_SHOWN = 8; // of those that an undo changes

/**
 * Take a cycle back; return the way to have it again.
 * @param {string} id
 */
export async function undoCycle(id) {
  return forwardAgain(await call("POST /v1/undo", { cycle: id }));
}

/** @param {UndoAnswer} done @returns {(() => Promise<UndoAnswer>) | null} */
export function forwardAgain(done) {
  const { undo_seq: seq, undo_group: group } = done;
  if (group) return () => call("POST /v1/undo", { group });
  return seq ? () => call("POST /v1/undo", { seq }) : null;
}

/**
 * Show what taking something back would do, and why it cannot be if it cannot, before it is done.
 * @param {Page} page
 * @param {HTMLElement} place
 * @param {import("../../../api_types").UndoRequest} wanted
 * @param {{label: string, done: string}} words
 */
export async function proposeUndo(page, place, wanted, { label, done }) {
  if (place.hasChildNodes()) return fill(place); // a second press closes it
  const keep = button(
    "Keep it",
    "",
    () => {
      fill(place);
      /** @type {HTMLElement | null} */ (place.closest("[data-row]"))?.focus();
    },
    { class: "keep" },
  );
  try {
    const plan = await call("POST /v1/undo", { ...wanted, dry_run: true });
    const act = button(
      label,
      "",
      () => {
        fill(place);
        void page.write(async () => ({ text: done, undo: forwardAgain(await call("POST /v1/undo", wanted)) }));
      },
      { class: "primary" },
    );
    const list = h("ul.plain-list");
    fill(
      place,
      h(
        "div.box.undo-plan",
        { role: "group", "aria-label": "What it takes back" },
        h(
          "p",
          h("b", `Takes back ${counted(plan.seqs.length, "change")} of ${memoriesText(plan.total)}`),
          "; none of them was changed since.",
        ),
        list,
        h("div.actions", act, keep),
      ),
    );
    act.focus();
    await listMemories(page, list, plan.ids, plan.total);
  } catch (error) {
    if (!(error instanceof ApiError) || error.isGone) return page.fail(error);
    const later = /** @type {Later[]} */ (error.body?.later ?? []);
    if (later.length) keep.textContent = "Leave it";
    const about = { class: "box undo-plan", role: "group", "aria-label": "It cannot be taken back" };
    fill(place, h("div", about, refusal(page, error, later), h("div.actions", keep)));
    keep.focus();
  }
}

/**
 * Say why something cannot be taken back: what came since, each with its own way back.
 * @param {Page} page
 * @param {ApiError} error
 * @param {Later[]} later
 * @returns {import("../../html.js").Children}
 */
function refusal(page, error, later) {
  if (!later.length) return h("p.warn", `⚠ ${error.message}`);
  const rows = later.slice(0, MEMORIES_SHOWN).map((each) =>
    h(
      "li.row",
      plainButton(`memory ${each.id.slice(-8)}`, () => page.set({ id: each.id })),
      h("span.grow.meta", `${moment(each.at)} · ${each.by || "you"} · ${each.what} ${each.seq}`),
      plainButton("Take this back", () => void takeBack(page, each.seq)),
    ),
  );
  const more = later.length - MEMORIES_SHOWN;
  return [
    h(
      "p",
      h("b.warn", `⚠ Nothing is taken back: ${counted(later.length, "change")} came since`),
      " on the same memories. Take those back first.",
    ),
    h("ul.plain-list", rows, more > 0 ? h("li.meta", `and ${count(more)} more`) : null),
  ];
}

/**
 * @param {Page} page
 * @param {HTMLElement} list
 * @param {string[]} ids
 * @param {number} total
 */
async function listMemories(page, list, ids, total) {
  const { memories } = await call("GET /v1/memories", { id: ids.slice(0, MEMORIES_SHOWN) });
  const text = (/** @type {import("../../../api_types").MemoryView} */ memory) =>
    memory.tags.includes("sensitive")
      ? excerpt(memory)
      : h(
          "button.plain.grow.line-clamp",
          { on: { click: () => page.set({ id: memory.id }) } },
          memoryText(memory.content),
        );
  fill(
    list,
    memories.map((memory) =>
      h("li.row", text(memory), h("span.meta", memory.state === "active" ? memory.layer : memory.state)),
    ),
    total > MEMORIES_SHOWN ? h("li.meta", `and ${memoriesText(total - MEMORIES_SHOWN)} more`) : null,
  );
}
