// Is it well, and what is it doing.

import { ApiError, ask, call } from "../api.js";
import { lineChart, moreButton } from "../charts.js";
import { bytes, count, counted, dotted, duration } from "../format.js";
import { button, fill, h, plainButton } from "../html.js";
import { ifKnown, readInto } from "../part.js";
import { devicesPanel } from "./machine/devices.js";
import { EventLog } from "./machine/events.js";
import { jobsPanel } from "./machine/jobs.js";
import { modelsPanel, namespacesPanel, settingsPanel, usagePanel } from "./machine/lists.js";
import { notesPanel } from "./machine/notes.js";

/** @typedef {import("../../api_types").StatusAnswer} StatusAnswer */
/** @typedef {{name: string, outcome: "ok" | "warn" | "fail", found: string, fix: string}} Check */
/** @typedef {import("../../api_types").DailyValuesView} DailyValues */

const LOOK_MS = 15_000; // between two looks at what changes by itself
const JOB_MS = 2000; // after an event of a job, at the earliest
const WEEK_MS = 7 * 86_400_000;
const DISK_PARTS = ["database", "journal", "views"];

/** @type {import("../app.js").View} */
export default { title: "Machine", mount: (place, page) => new Machine(place, page) };

class Machine {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    /** @type {Check[] | null} */
    this.checks = null;
    this.isAllChecked = false;
    this.isChecking = false;
    /** @type {Record<string, boolean>} panels that are shown whole */
    this.isAll = {};
    const panel = (/** @type {string} */ name) => h("section", { class: `panel ${name}` });
    this.head = h("header.view-head", h("h1", "Machine"));
    this.cause = h("div", { role: "status" });
    this.charts = h("div.three.charts");
    this.notes = panel("notes");
    this.jobs = panel("jobs-panel");
    this.models = panel("models");
    this.settings = panel("settings-panel");
    this.events = new EventLog();
    this.doctor = panel("doctor");
    this.namespaces = panel("namespaces-panel");
    this.usage = panel("usage");
    this.devices = panel("devices");
    fill(
      place,
      this.head,
      this.cause,
      this.charts,
      h("div.two.machine-two", this.notes, this.jobs),
      h("div.three", this.models, this.settings, this.events.place),
      h("div.three", this.doctor, this.namespaces, this.usage),
      this.devices,
    );
    this.keys = { s: () => this.events.stop() };
    this.timer = setInterval(() => {
      if (!document.hidden) this.look();
    }, LOOK_MS);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.jobTimer = undefined;
    this.isRead = false;
  }

  show() {
    if (this.isRead) return;
    this.isRead = true;
    this.refresh();
    void this.check(false);
  }

  refresh() {
    this.look();
    void this.readStats();
    void this.readModels();
    void this.readSettings();
    void this.readDevices();
  }

  async readDevices() {
    const draw = (/** @type {import("../../api_types").SyncAnswer} */ answer) =>
      fill(this.devices, devicesPanel(this.page, answer, draw));
    await readInto(
      this.page,
      this.devices,
      () => call("GET /v1/sync", {}),
      (answer) => devicesPanel(this.page, answer, draw),
      "reading the devices",
    );
  }

  leave() {
    clearInterval(this.timer);
    clearTimeout(this.jobTimer);
  }

  /** @param {string} name @param {any} data */
  heard(name, data) {
    this.events.heard(name, data);
    if (name === "change" || this.jobTimer) return;
    this.jobTimer = setTimeout(() => {
      this.jobTimer = undefined;
      void this.readJobs();
    }, JOB_MS);
  }

  /** Read what changes by itself: state, folders, jobs. A form that is being filled in stays. */
  look() {
    void this.readJobs();
    void this.readStatus();
  }

  async readStatus() {
    try {
      const status = await call("GET /v1/status", {});
      this.status = status;
      this.drawHead();
      if (!this.notes.querySelector("form")) fill(this.notes, notesPanel(this.page, status.notes));
      const drawNamespaces = (/** @type {boolean} */ isAll) => {
        this.isAll.namespaces = isAll;
        fill(this.namespaces, namespacesPanel(status.namespaces, isAll, drawNamespaces));
      };
      drawNamespaces(this.isAll.namespaces ?? false);
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  async readJobs() {
    await this.readPanel(
      "jobs",
      () => call("GET /v1/jobs", {}),
      (answer, isAll, draw) => jobsPanel(answer, this.status?.views ?? this.page.status?.views ?? {}, isAll, draw),
    );
  }

  async readModels() {
    const read = async () => {
      const answer = await call("GET /v1/models", {});
      void readInto(
        this.page,
        this.usage,
        () => call("GET /v1/llm/usage", {}),
        (usage) => usagePanel(usage, answer.llm),
      );
      return answer;
    };
    await this.readPanel("models", read, (answer, isAll, draw) => modelsPanel(this.page, answer, isAll, draw));
  }

  async readSettings() {
    await this.readPanel("settings", () => call("GET /v1/config", {}), settingsPanel);
  }

  /**
   * Fill a panel with what is read for it; the panel draws itself again when all of it, or less, is asked for.
   * @template T
   * @param {"jobs" | "models" | "settings"} name
   * @param {() => Promise<T>} read
   * @param {(answer: T, isAll: boolean, draw: (isAll: boolean) => void) => import("../html.js").Children} panel
   */
  async readPanel(name, read, panel) {
    const drawn = (/** @type {T} */ answer) => {
      const draw = (/** @type {boolean} */ isAll) => {
        this.isAll[name] = isAll;
        fill(this[name], drawn(answer));
      };
      return panel(answer, this.isAll[name] ?? false, draw);
    };
    await readInto(this.page, this[name], read, drawn, `reading the ${name}`);
  }

  // The first line

  drawHead() {
    const { status } = this;
    if (!status) return;
    const isByWords = status.state === "degraded" && !this.page.isDegraded;
    const badge =
      status.state === "ready"
        ? h("span.badge.ok", "✓ ready")
        : h(
            "span.badge.warn",
            isByWords ? "◐ by words only" : status.state === "degraded" ? "⚠ degraded" : "◐ warming up",
          );
    const bad = this.checks?.filter((check) => check.outcome !== "ok").length ?? 0;
    const doctor = this.checks
      ? [
          `${counted(this.checks.length, "check")} of doctor: ${count(this.checks.length - bad)} fine`,
          bad
            ? [
                ", ",
                button(`${count(bad)} to look at`, "", () => this.doctor.scrollIntoView({ block: "center" }), {
                  class: "plain",
                }),
              ]
            : "",
        ]
      : this.isChecking
        ? "doctor is looking …"
        : "";
    const network = status.network
      ? status.network.blocked
        ? "network blocked by the kernel"
        : `network not blocked${status.network.reason ? `: ${status.network.reason}` : ""}`
      : "";
    fill(
      this.head,
      h("h1", "Machine"),
      badge,
      h("span.grow", doctor),
      h(
        "span.meta",
        dotted(
          `mnemod ${status.version}`,
          `up ${duration(status.uptime_seconds)}`,
          bytes(status.memory_private_bytes),
          network,
        ),
      ),
    );
    fill(this.cause, status.state === "degraded" ? causeBox(status, isByWords) : null, failingThreads(status));
  }

  // Charts

  async readStats() {
    await readInto(
      this.page,
      this.charts,
      () => Promise.all([ifKnown(call("GET /v1/stats", {})), call("GET /v1/status", {})]),
      ([stats, status]) => this.drawCharts(stats?.days ?? [], status),
      "reading a year of values",
    );
  }

  /** @param {DailyValues[]} days @param {StatusAnswer} status */
  drawCharts(days, status) {
    const at = days.map((each) => each.at);
    const disk = (/** @type {Record<string, number>} */ parts) =>
      DISK_PARTS.reduce((sum, part) => sum + (parts[part] ?? 0), 0);
    const weekAgo = days.findLast((each) => each.at <= Date.now() - WEEK_MS);
    const more = weekAgo ? status.memories - weekAgo.memories : 0;
    const today = days.at(-1);
    const ms = (/** @type {number} */ value) => `${value < 10 ? value.toFixed(1) : count(Math.round(value))} ms`;
    const median = today?.recall_ms_median ?? null;
    const timed =
      median === null
        ? ["–", days.length ? "no question was asked today" : "this daemon keeps no values of days"]
        : [
            ms(median),
            `median of ${count(today?.recalls ?? 0)} today · 95 in 100 under ${ms(today?.recall_ms_p95 ?? 0)}`,
          ];
    return [
      lineChart({
        title: "Memories",
        figure: count(status.memories),
        about: weekAgo
          ? `${count(Math.abs(more))} ${more < 0 ? "fewer" : "more"} than a week ago`
          : "active and archived",
        at,
        isFilled: true,
        lines: [{ name: "memories", values: days.map((each) => each.memories) }],
        say: (value) => count(Math.round(value * 10) / 10),
      }),
      lineChart({
        title: "Answer time",
        figure: timed[0],
        about: timed[1],
        at,
        say: ms,
        lines: [
          { name: "median", values: days.map((each) => each.recall_ms_median) },
          { name: "95 in 100", values: days.map((each) => each.recall_ms_p95) },
        ],
      }),
      lineChart({
        title: "On disk",
        figure: bytes(disk(status.disk)),
        about: `${bytes(status.disk.free ?? 0)} free`,
        at,
        lines: [{ name: "on disk", values: days.map((each) => disk(each.disk)) }],
        say: (value) => bytes(Math.round(value)),
        events: shrunk(days, disk),
      }),
    ];
  }

  // Doctor

  /** @param {boolean} wantsAll also the checks that take long, or write */
  async check(wantsAll) {
    if (this.isChecking) return;
    this.isChecking = true;
    this.drawDoctor();
    this.drawHead();
    try {
      const answer = await ask("/page/doctor", wantsAll ? {} : undefined);
      this.checks = answer.checks;
      this.isAllChecked = answer.all;
      this.failure = "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.failure = error.message;
    }
    this.isChecking = false;
    this.drawDoctor();
    this.drawHead();
  }

  failure = "";

  drawDoctor() {
    const checks = this.checks ?? [];
    const bad = checks.filter((check) => check.outcome !== "ok");
    const shown = this.isAll.doctor ? checks : bad;
    fill(
      this.doctor,
      h(
        "header.row",
        h("h2", "To look at"),
        h("span.meta.grow", "from doctor"),
        checks.length
          ? moreButton(
              `All ${count(checks.length)} checks`,
              (isAll) => {
                this.isAll.doctor = isAll;
                this.drawDoctor();
              },
              this.isAll.doctor ?? false,
            )
          : null,
      ),
      this.isChecking
        ? h("p.meta", { role: "status" }, "doctor is looking …")
        : this.failure
          ? h("p.warn", `⚠ ${this.failure}`)
          : checks.length && !bad.length
            ? h("p", h("span.ok", "✓ "), `All ${count(checks.length)} are fine.`)
            : null,
      h(
        "ul.plain-list.findings",
        shown.map((check) =>
          h(
            "li",
            h(
              "span",
              { class: check.outcome === "ok" ? "badge" : "badge warn" },
              check.outcome === "ok" ? `✓ ${check.name}` : `⚠ ${check.name}`,
            ),
            h("div.grow", h("p.text", { dir: "auto" }, check.found), check.fix ? h("code.text", check.fix) : null),
          ),
        ),
      ),
      h(
        "p.row",
        this.isChecking ? null : plainButton("Look again", () => void this.check(false)),
        this.page.isReadOnly || this.isChecking
          ? null
          : plainButton(
              this.isAllChecked ? "All again" : "Also integrity and a round trip",
              () => void this.check(true),
            ),
      ),
    );
  }
}

/**
 * The days on which the store became much smaller, as it does when it is compacted.
 * @param {DailyValues[]} days
 * @param {(parts: Record<string, number>) => number} disk
 */
function shrunk(days, disk) {
  return days.flatMap((each, index) => {
    const before = index ? disk(days[index - 1].disk) : 0;
    return before && disk(each.disk) < before * 0.8 ? [{ at: each.at, words: "became smaller" }] : [];
  });
}

/**
 * The cause of a degraded state, what still works, and what to do.
 * @param {StatusAnswer} status
 * @param {boolean} isByWords only the embedding model is missing
 */
function causeBox(status, isByWords) {
  const works = isByWords
    ? "Everything that is stored can be read, written and found by its words; what means the same in other words is not found."
    : "Everything that is stored can be read. What is written meanwhile is kept in the journal, and taken over when the cause is gone.";
  return h(
    "div.box.cause",
    h("h2.warn", `${isByWords ? "◐" : "⚠"} ${status.reasons.join("; ")}`),
    h("p", works),
    h(
      "p",
      "See what is wrong and how to mend it: ",
      h("code", "mnemo doctor"),
      ", then ",
      h("code", "mnemo doctor --fix"),
      ".",
    ),
  );
}

/** @param {StatusAnswer} status */
function failingThreads({ threads }) {
  const failing = Object.entries(threads).filter(([, thread]) => thread.failing);
  const words = failing.map(([name, thread]) => `${name} (${thread.last_failure ?? "no reason given"})`);
  return words.length ? h("p.note-line.warn", `⚠ Fails again and again: ${words.join("; ")}`) : null;
}
