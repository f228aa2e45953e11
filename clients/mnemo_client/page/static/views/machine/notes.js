// The watched folders of notes, and each file that was skipped.

import { call } from "../../api.js";
import { table } from "../../controls.js";
import { count, counted, dotted, shortPath } from "../../format.js";
import { button, fill, h, plainButton } from "../../html.js";

/** @typedef {import("../../app.js").Page} Page */
/** @typedef {import("../../../api_types").NotesStatus} NotesStatus */
/** @typedef {import("../../../api_types").NotesRootStatus} Root */

const SKIPPED_FIRST = 5;

/** @type {Record<string, string>} */
const STATES = {
  watching: "watching",
  polling: "looked at every few seconds",
  scanning: "scanning",
  missing: "⚠ the folder is gone",
  paused: "paused",
};

/** @param {Page} page @param {NotesStatus} notes */
export function notesPanel(page, notes) {
  const form = h("div");
  const head = h(
    "header.row",
    h("h2.grow", "Notes folders"),
    page.isReadOnly || !notes.roots.length ? null : plainButton("Look again", () => void rescan(page)),
    page.isReadOnly ? null : plainButton("Add a folder …", () => addForm(page, form)),
  );
  if (!notes.roots.length) {
    return [
      head,
      form,
      h(
        "p",
        "No folder is watched. A folder of notes is read in seconds, and remembered again whenever a file changes; the files stay as they are.",
      ),
      h("pre.command", h("code", "mnemo notes add ~/notes")),
    ];
  }
  const heads = ["folder", "namespace", "files", "passages", "state", "stop"];
  const folders = table(
    heads,
    notes.roots.map((root) => rootRow(page, root)),
  );
  folders.tHead?.classList.add("hidden");
  return [head, form, folders, skipped(notes)];
}

/** @param {Page} page @param {Root} root */
function rootRow(page, root) {
  const state = dotted(
    STATES[root.state] ?? root.state,
    root.waiting ? `${count(root.waiting)} wait` : "",
    root.reason ?? "",
  );
  return h(
    "tr",
    h("td", h("code.text", { title: root.path, dir: "auto" }, shortPath(root.path))),
    h("td.meta", { dir: "auto" }, root.namespace),
    h("td.number", counted(root.files, "file")),
    h("td.number", counted(root.chunks, "passage")),
    h("td", { class: root.state === "missing" ? "warn" : "" }, state),
    h(
      "td",
      page.isReadOnly
        ? null
        : button("Stop", "", () => void stop(page, root), {
            class: "plain",
            "aria-label": `Stop watching ${root.path}`,
          }),
    ),
  );
}

/** @param {NotesStatus} notes */
function skipped(notes) {
  if (!notes.skipped_total) return null;
  const shown = notes.skipped.slice(0, SKIPPED_FIRST);
  const list = h("ul.plain-list.skipped");
  const draw = (/** @type {NotesStatus["skipped"]} */ files) => {
    const rest = notes.skipped_total - files.length;
    const reasons = Object.entries(notes.skipped_by_reason)
      .map(([reason, number]) => `${count(number)} × ${reason}`)
      .join(", ");
    fill(
      list,
      files.map((file) =>
        h("li", h("code.text", { title: file.path, dir: "auto" }, shortPath(file.path)), h("span.meta", file.reason)),
      ),
      rest > 0
        ? h(
            "li",
            files.length < notes.skipped.length
              ? button(`${count(notes.skipped.length - files.length)} more`, "", () => draw(notes.skipped), {
                  class: "plain",
                })
              : h("span.meta", `the first ${count(files.length)} of ${count(notes.skipped_total)}`),
            h("span.meta", `all: ${reasons}`),
          )
        : null,
    );
  };
  draw(shown);
  return h(
    "details",
    { open: true },
    h("summary", `${counted(notes.skipped_total, "file was", "files were")} skipped`),
    list,
  );
}

/** @param {Page} page */
async function rescan(page) {
  page.toast("Every folder is compared with what is stored …");
  await page.write(async () => {
    const { roots } = await call("POST /v1/notes/rescan", {});
    return {
      text: `Looked at ${counted(
        roots.reduce((sum, each) => sum + each.files, 0),
        "file",
      )} in ${counted(roots.length, "folder")}`,
    };
  });
}

/** @param {Page} page @param {Root} root */
async function stop(page, root) {
  await page.write(async () => {
    const { ids } = await call("DELETE /v1/notes/roots", { id: root.id });
    return {
      text: `No longer watched: ${shortPath(root.path)}; ${counted(ids.length, "memory", "memories")} in the trash, the files stay`,
      undo: () => call("POST /v1/notes/roots", { path: root.path, namespace: root.namespace }),
    };
  });
}

/** @param {Page} page @param {HTMLElement} place */
function addForm(page, place) {
  if (place.hasChildNodes()) return fill(place);
  const path = h("input", { type: "text", "aria-label": "Folder, as a whole path", dir: "auto" });
  const namespace = h("input", {
    type: "text",
    value: page.oneNamespace ?? "default",
    "aria-label": "Namespace",
    dir: "auto",
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void page.write(async () => {
      const root = await call("POST /v1/notes/roots", {
        path: path.value.trim(),
        namespace: namespace.value.trim() || null,
      });
      fill(place);
      return { text: `Watched: ${shortPath(root.path)}`, undo: () => call("DELETE /v1/notes/roots", { id: root.id }) };
    });
  };
  fill(
    place,
    h(
      "form.prompt",
      { on: { submit } },
      h("label.grow", h("span.meta", "Folder, as a whole path"), path),
      h("label", h("span.meta", "Namespace"), namespace),
      h("button.primary", "Watch it"),
      button("Cancel", "", () => fill(place)),
    ),
  );
  path.focus();
}
