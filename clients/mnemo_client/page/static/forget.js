// Forgetting for ever: what goes, the word that has to be typed, and the proof.

import { call } from "./api.js";
import { lastingDialog, wordForm } from "./controls.js";
import { bytes, count, counted, duration } from "./format.js";
import { fill, h, memoryText } from "./html.js";

/** @typedef {import("../api_types").EraseAnswer} EraseAnswer */

/** @param {import("./app.js").Page} page @param {import("../api_types").MemoryView} memory */
export async function showForget(page, memory) {
  const { dialog, place } = lastingDialog("forget-title");
  fill(place, h("h2", { id: "forget-title" }, "Forget for ever"), h("p", "Reading what goes with it …"));
  dialog.showModal();
  try {
    const plan = await call("POST /v1/memories/{id}/purge", { dry_run: true }, { part: memory.id });
    fill(place, ...question(page, memory, plan, dialog, place));
    place.querySelector("input")?.focus();
  } catch (error) {
    dialog.close();
    page.fail(error);
  }
}

/**
 * @param {import("./app.js").Page} page
 * @param {import("../api_types").MemoryView} memory
 * @param {EraseAnswer} plan
 * @param {HTMLDialogElement} dialog
 * @param {HTMLElement} place
 * @returns {import("./html.js").Children[]}
 */
function question(page, memory, plan, dialog, place) {
  const act = async (/** @type {HTMLButtonElement} */ button) => {
    button.disabled = true;
    button.textContent = "forgetting …";
    try {
      const proof = await call("POST /v1/memories/{id}/purge", {}, { part: memory.id });
      page.card?.close();
      fill(place, ...proofOf(proof, dialog));
      page.refresh();
    } catch (error) {
      dialog.close();
      page.fail(error);
    }
  };
  return [
    h("h2", { id: "forget-title" }, "Forget for ever"),
    h("blockquote", memoryText(memory.content)),
    h(
      "ul",
      h("li", `${counted(plan.purged.length, "memory", "memories")}, with every version and index entry`),
      plan.derived.length ? h("li", `${counted(plan.derived.length, "memory", "memories")} made from it alone`) : null,
      Object.keys(plan.rederive).length
        ? h("li", `${count(Object.keys(plan.rederive).length)} made from it and others are made again`)
        : null,
      plan.revived.length ? h("li", `${count(plan.revived.length)} that it replaced come back`) : null,
      plan.backups.length
        ? h("li.warn", `⚠ ${counted(plan.backups.length, "backup")} may keep it: ${plan.backups.join(", ")}`)
        : null,
    ),
    h("p.meta", "This cannot be undone. ", memory.note ? "The text is also in your file, which is not changed." : ""),
    wordForm(dialog, "forget", "Forget", act),
  ];
}

/** @param {EraseAnswer} proof @param {HTMLDialogElement} dialog @returns {import("./html.js").Children[]} */
function proofOf(proof, dialog) {
  return [
    h("h2", { id: "forget-title" }, proof.complete ? "Forgotten" : "Forgotten, but not everywhere"),
    h(
      "p",
      `${counted(proof.searched.files, "file")} with ${bytes(proof.searched.bytes)} were searched for its words: `,
      proof.searched.found.length ? `${count(proof.searched.found.length)} hold some` : "none holds them",
      ".",
    ),
    h(
      "ul.proof",
      proof.places.map((each) =>
        h(
          "li",
          h("b", each.state === "still there" ? "⚠" : "✓"),
          ` ${each.place}: ${each.state} `,
          h("span.meta", { dir: "auto" }, each.detail),
        ),
      ),
    ),
    proof.backups.length ? h("p.warn", `⚠ Backups that may keep it: ${proof.backups.join(", ")}`) : null,
    h("p.meta", `${counted(proof.purged.length, "memory", "memories")} · ${duration(proof.seconds)}`),
    h("button.primary", { autofocus: true, on: { click: () => dialog.close() } }, "Close"),
  ];
}
