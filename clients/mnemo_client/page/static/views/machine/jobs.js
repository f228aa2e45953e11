// What the daemon does in the background, and what it waits for.

import { bar, moreButton } from "../../charts.js";
import { count, counted, dotted, duration, moment } from "../../format.js";
import { h } from "../../html.js";

const FIRST = 5;

/**
 * @param {import("../../../api_types").JobsAnswer} answer
 * @param {Record<string, import("../../../api_types").ViewStatus>} views
 * @param {boolean} isAll
 * @param {(isAll: boolean) => void} draw
 */
export function jobsPanel({ jobs, operations }, views, isAll, draw) {
  const order = ["failing", "running", "waiting", "idle"];
  const sorted = [...jobs].sort(
    (one, other) =>
      order.indexOf(one.state) - order.indexOf(other.state) || (other.finished_at ?? 0) - (one.finished_at ?? 0),
  );
  const building = Object.entries(views).filter(([, view]) => view.state !== "off" && view.share < 1);
  const atWork = jobs.filter((job) => job.state === "running").length + operations.length + building.length;
  const shown = isAll ? sorted : sorted.filter((job, index) => job.state !== "idle" || index < FIRST);
  return [
    h(
      "header.row",
      h("h2", "Jobs"),
      h("span.meta.grow", `${count(jobs.length)}, ${atWork ? `${count(atWork)} at work` : "none at work"}`),
      moreButton("All", draw, isAll),
    ),
    h(
      "ul.plain-list.jobs",
      operations.map((each) =>
        row(
          each.name,
          each.total ? bar(each.done / each.total) : h("span.meta", each.step),
          dotted(
            each.total ? `${Math.round((100 * each.done) / each.total)}%` : counted(each.done, "done", "done"),
            each.seconds_left === null ? "" : duration(each.seconds_left),
          ),
        ),
      ),
      building.map(([name, view]) =>
        row(
          `index: ${name}`,
          bar(view.share),
          dotted(
            `${Math.floor(100 * view.share)}%`,
            view.seconds_left === null ? (view.reason ?? "") : duration(view.seconds_left),
          ),
        ),
      ),
      shown.map((job) =>
        row(
          job.name.replaceAll("_", " "),
          h("span.meta", job.state === "failing" ? h("span.warn", `⚠ ${job.last_failure ?? "it fails"}`) : job.summary),
          stateWords(job),
          job.slice,
        ),
      ),
    ),
  ];
}

/** @param {import("../../../api_types").JobStatus} job */
function stateWords(job) {
  if (job.state === "running") return "at work";
  if (job.state === "failing") return `failed ${counted(job.failures, "time")}`;
  if (job.state === "waiting") return `waits: ${job.reason ?? "for its turn"}`;
  const seconds = job.next_at === null ? 0 : (job.next_at - Date.now()) / 1000;
  return seconds > 0
    ? `in ${duration(seconds)}`
    : job.finished_at
      ? `last ${moment(job.finished_at)}`
      : "nothing to do yet";
}

/**
 * @param {string} name
 * @param {Node} middle
 * @param {string} state
 * @param {string} [title]
 */
const row = (name, middle, state, title) =>
  h("li", { title }, h("span.name", name), h("span.middle.grow", middle), h("span.state", state));
