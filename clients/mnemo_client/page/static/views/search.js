// Find one thing, and see why it is first.

import { ApiError, call } from "../api.js";
import { asOfSlider } from "../as_of.js";
import { Chips } from "../chips.js";
import { count, counted, day, duration, memories as memoriesText, signed } from "../format.js";
import { button, fill, h, memoryText } from "../html.js";
import { excerpt, memoryList, memoryRow, metaLine } from "../memory.js";
import { difference } from "../diff.js";

/** @typedef {import("../app.js").Page} Page */
/** @typedef {import("../app.js").Route} Route */
/** @typedef {import("../../api_types").RecallAnswer} RecallAnswer */
/** @typedef {import("../../api_types").RecallRequest} RecallRequest */
/** @typedef {import("../../api_types").RecalledMemory} Hit */
/** @typedef {import("../../api_types").CandidateTrace} Candidate */

const QUIET_MS = 60; // after the last key, until the memory is asked
const ANSWER_MS = 400; // until it is asked for an answer in sentences
const ANSWER_WORDS = 3; // a question of fewer is not answered by itself
const HITS = 20;
const SLOW_MS = 300;
const HITS_ALWAYS = 3; // are shown however little they have to do with the question
const FAINT = 0.05; // hits with less are shown when they are asked for
export const GROUPS = /** @type {const} */ (["word", "sense", "text", "near", "time"]);
/** @type {Record<typeof GROUPS[number], string>} */
const GROUP_WORDS = {
  word: "in common",
  sense: "close in meaning",
  text: "reads like an answer",
  near: "what is next to it",
  time: "newer or older",
};

/** @type {import("../app.js").View} */
export default {
  title: "Search",
  mount: (place, page) => new Search(place, page),
};

class Search {
  /**
   * @param {HTMLElement} place
   * @param {Page} page
   */
  constructor(place, page) {
    this.page = page;
    /** @type {RecallAnswer | null} */
    this.answer = null;
    /** @type {AbortController | null} */
    this.asking = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.answerTimer = undefined;
    this.askedFor = "";
    this.drawnFor = ""; // what the hits on the screen were asked for
    this.typedQuery = ""; // what stands in the field; an address that says something else has come from elsewhere
    this.newCount = 0;
    this.field = h("input", {
      type: "search",
      placeholder: "Search your memory",
      "aria-label": "Search your memory",
      autocomplete: "off",
      spellcheck: "false",
      dir: "auto",
      on: { input: () => this.typed(), keydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event) },
    });
    this.took = h("span", { class: "meta", role: "status" });
    this.chips = new Chips(page);
    this.slider = asOfSlider(page);
    this.banner = h("div", {});
    this.sentences = h("div", { class: "answer", "aria-live": "polite" });
    this.summary = h("div", { class: "list-head" });
    this.hits = memoryList(page, "Hits", () => this.drawWhy());
    this.rest = h("div", { class: "meta" });
    this.side = h("aside", { class: "side", "aria-label": "Why it is here" });
    fill(
      place,
      h(
        "div",
        { class: "main-column" },
        h("h1", { class: "hidden" }, "Search"),
        h(
          "form",
          {
            class: "search-field",
            role: "search",
            on: {
              submit: (/** @type {Event} */ event) => {
                event.preventDefault();
                void this.ask();
              },
            },
          },
          this.field,
          this.took,
          button("Ask", "a", () => void this.answerNow(), { class: "ask" }),
        ),
        this.chips.place,
        this.slider.place,
        this.banner,
        this.sentences,
        this.summary,
        this.hits.list,
        this.rest,
      ),
      this.side,
    );
    this.keys = {
      a: () => void this.answerNow(),
      t: () => this.slider.focus(),
      i: () => this.side.classList.toggle("open"),
      " ": () => this.hits.check(),
      ".": () => void this.ask(),
      "=": () => page.set({ compare: page.route.params.get("compare") ? null : "1" }),
    };
    if (innerWidth >= 900 && !page.route.params.get("id")) this.field.focus();
  }

  /** @param {Route} route */
  show(route) {
    const query = route.params.get("q") ?? "";
    if (query !== this.typedQuery) this.field.value = this.typedQuery = query;
    this.chips.show();
    this.slider.show(route);
    const asked = JSON.stringify([...route.params].filter(([name]) => name !== "id"));
    if (asked === this.askedFor) return;
    this.askedFor = asked;
    void this.ask();
  }

  current() {
    return this.hits.current();
  }
  /** @param {number} delta */
  step(delta) {
    this.hits.step(delta);
  }
  open() {
    this.hits.open();
  }
  refresh() {
    void this.ask();
  }

  back() {
    if (!this.field.value && !this.page.route.params.size) return false;
    this.field.value = "";
    this.page.set(
      Object.fromEntries(
        [...this.page.route.params.keys()].filter((name) => name !== "ns").map((name) => [name, null]),
      ),
    );
    this.field.focus();
    return true;
  }

  leave() {
    clearTimeout(this.timer);
    clearTimeout(this.answerTimer);
    this.asking?.abort();
  }

  /** @param {string} name */
  heard(name) {
    if (name !== "change") return;
    this.newCount += 1;
    this.drawSummary();
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.typedQuery = this.field.value;
      this.page.set({ q: this.field.value, id: null, all: null });
    }, QUIET_MS);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.hits.list.focus();
      this.hits.step(this.hits.current() ? 0 : 1);
    } else if (event.key === "Backspace" && !this.field.value) {
      this.chips.removeLast();
    }
  }

  /** @returns {RecallRequest} */
  request() {
    const { params } = this.page.route;
    return {
      query: params.get("q") ?? "",
      top_k: HITS,
      token_budget: null,
      namespace: this.page.namespace,
      explain: true,
      highlight: true,
      dry: true,
      ...this.chips.filters(),
      as_of: params.get("as_of"),
    };
  }

  async ask() {
    clearTimeout(this.timer);
    clearTimeout(this.answerTimer);
    this.asking?.abort();
    this.newCount = 0;
    const request = this.request();
    this.drawBanner();
    fill(this.sentences);
    if (!request.query.trim()) return this.drawBeginning();
    const asking = new AbortController();
    this.asking = asking;
    const began = performance.now();
    const slow = setTimeout(() => {
      this.took.textContent = `reading ${memoriesText(this.page.status?.memories ?? 0)} …`;
    }, SLOW_MS);
    try {
      const answer = await call("POST /v1/recall", request, { signal: asking.signal });
      this.answer = answer;
      this.took.textContent = duration((performance.now() - began) / 1000);
      this.drawHits();
      if (request.query.trim().split(/\s+/).length >= ANSWER_WORDS && !request.as_of) {
        this.answerTimer = setTimeout(() => void this.answerNow(), ANSWER_MS);
      }
    } catch (error) {
      if (error instanceof DOMException) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.isGone) return this.page.noteDaemon(false); // the old list stays
      this.took.textContent = "";
      this.answer = null;
      fill(this.summary);
      fill(
        this.hits.list,
        h(
          "div",
          { class: "empty" },
          h("p", {}, `⚠ ${error.message}`),
          button("Again", "", () => void this.ask()),
        ),
      );
    } finally {
      clearTimeout(slow);
    }
  }

  async answerNow() {
    clearTimeout(this.answerTimer);
    const question = this.field.value.trim();
    if (!question) return;
    const began = performance.now();
    try {
      const { since, until, tags } = this.chips.filters();
      const answer = await call("POST /v1/ask", {
        question,
        namespace: this.page.namespace,
        since,
        until,
        tags,
        as_of: this.page.route.params.get("as_of"),
        dry: true,
      });
      if (this.field.value.trim() !== question) return;
      this.drawAnswer(answer, (performance.now() - began) / 1000);
    } catch (error) {
      this.page.fail(error);
    }
  }

  /**
   * @param {import("../../api_types").AskAnswer} answer
   * @param {number} seconds
   */
  drawAnswer(answer, seconds) {
    if (answer.abstained) {
      fill(this.sentences, h("p", { class: "meta" }, "The memories do not hold the answer."));
      return;
    }
    const numbers = new Map(
      (this.answer?.memories ?? []).map((hit, index) => [hit.id, hit.was ? "was" : String(index + 1)]),
    );
    const cite = (/** @type {string} */ id) =>
      h(
        "button",
        {
          type: "button",
          class: "cite",
          "aria-label": `its memory, ${numbers.get(id) ?? "not in the list"}`,
          on: {
            click: () => this.page.set({ id }),
            pointerenter: () => this.hits.list.querySelector(`[data-id="${id}"]`)?.classList.add("lit"),
            pointerleave: () => this.hits.list.querySelector(`[data-id="${id}"]`)?.classList.remove("lit"),
          },
        },
        numbers.get(id) ?? "↗",
      );
    const how = answer.method === "llm" ? "written by the language model" : "quoted, no language model";
    fill(
      this.sentences,
      h(
        "p",
        { class: "sentences" },
        answer.sentences.map((each) => [memoryText(each.text), each.ids.map(cite), " "]).flat(),
      ),
      h(
        "p",
        { class: "meta" },
        `Answer in ${counted(answer.sentences.length, "sentence")}, each with its memory · ${how} · ${duration(seconds)}`,
        answer.time?.text ? ` · ${answer.time.text}` : "",
        answer.sensitive ? ` · ${memoriesText(answer.sensitive)} marked sensitive match better` : "",
      ),
    );
  }

  drawBanner() {
    const asOf = this.page.route.params.get("as_of");
    fill(
      this.banner,
      asOf
        ? h(
            "p",
            { class: "past-line", role: "status" },
            `◷ As it was on ${day(Date.parse(asOf))}. Nothing can be edited here. `,
            button("Back to now", "", () => this.page.set({ as_of: null }), { class: "plain" }),
          )
        : null,
    );
  }

  /** What is seen without a question: the newest memories, or how to begin. */
  async drawBeginning() {
    this.answer = null;
    fill(this.rest);
    this.took.textContent = "";
    fill(this.side);
    try {
      const { memories, total } = await call("GET /v1/recent", { limit: HITS, namespace: this.page.namespace });
      if (this.field.value.trim()) return;
      if (!memories.length) return this.drawEmptyStore();
      fill(
        this.summary,
        h("span", { class: "meta" }, `The last of ${memoriesText(total)}, by the time when they happened`),
      );
      fill(
        this.hits.list,
        memories.map((memory) => memoryRow(memory, {}, h("div", { class: "body" }, excerpt(memory), metaLine(memory)))),
      );
      this.hits.keep();
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  drawEmptyStore() {
    fill(this.summary);
    const step = (/** @type {string} */ text, /** @type {string} */ command) =>
      h("li", {}, h("p", {}, text), h("pre", {}, h("code", {}, command)));
    fill(
      this.hits.list,
      h(
        "div",
        { class: "empty" },
        h("h2", {}, "There is no memory yet"),
        h("p", {}, "Nothing was remembered in this store. Three ways to begin:"),
        h(
          "ol",
          {},
          step("Have a folder of notes remembered, and every change of it:", "mnemo notes add ~/notes"),
          step("Remember one thing:", "mnemo add 'The spare key is with Ines.'"),
          step("Let your agents remember:", "mnemo setup claude-code"),
        ),
      ),
    );
  }

  drawSummary() {
    const answer = this.answer;
    if (!answer) return;
    const was = answer.memories.filter((hit) => hit.was).length;
    const hits = answer.memories.length - was;
    fill(
      this.summary,
      h(
        "span",
        { class: "grow" },
        counted(hits, "hit"),
        was ? ` and ${counted(was, "older value")}` : "",
        answer.total > answer.memories.length ? h("span", { class: "meta" }, ` of ${count(answer.total)} found`) : "",
        answer.abstained ? h("span", { class: "meta" }, " · none is close enough to be an answer") : "",
        answer.time?.text ? h("span", { class: "meta" }, ` · ${answer.time.text}`) : "",
        this.newCount ? button(`${this.newCount} new`, ".", () => void this.ask(), { class: "new" }) : null,
      ),
      h(
        "span",
        { class: "bar-heads", "aria-hidden": "true" },
        GROUPS.map((name) => h("span", {}, name)),
      ),
      h("span", { class: "score" }, "score"),
    );
  }

  drawHits() {
    const answer = /** @type {RecallAnswer} */ (this.answer);
    const candidates = new Map(answer.trace?.candidates.map((each) => [each.id, each]));
    const scale = Math.max(
      0.01,
      ...[...candidates.values()].flatMap((each) => GROUPS.map((name) => Math.abs(groupsOf(each)?.[name] ?? 0))),
    );
    this.drawSummary();
    if (!answer.memories.length) {
      fill(this.hits.list, this.noHit(answer));
      fill(this.rest);
      fill(this.side);
      return;
    }
    const isCompared = this.page.route.params.get("compare") && this.page.route.params.get("as_of");
    let rank = 0;
    /** @type {Hit | null} */
    let newer = null;
    const isAll = this.page.route.params.get("all") === "1";
    const at = answer.memories.findIndex((hit, place) => place >= HITS_ALWAYS && !hit.was && hit.score < FAINT);
    const shown = isAll || at < 0 ? answer.memories : answer.memories.slice(0, at);
    const left = answer.memories.length - shown.length;
    const rows = shown.map((hit) => {
      if (!hit.was) {
        rank += 1;
        newer = hit;
      }
      const date = hit.was
        ? `${day(hit.event_at)} – ${newer ? day(Math.min(newer.event_at, newer.created_at)) : ""}`
        : undefined;
      return memoryRow(
        hit,
        { class: hit.was ? "was" : "" },
        h("span", { class: "rank" }, hit.was ? "was" : String(rank)),
        h(
          "div",
          { class: "body" },
          excerpt(hit),
          metaLine(hit, { date }),
          hit.others ? h("span", { class: "meta" }, `and ${counted(hit.others, "passage")} of the same note`) : null,
        ),
        hit.was ? h("span", { class: "bars" }) : bars(candidates.get(hit.id), scale),
        h("span", { class: "score" }, hit.was ? "" : hit.score.toFixed(2)),
      );
    });
    fill(this.hits.list, rows);
    const more = () => this.page.set({ all: "1" });
    fill(this.rest, left ? button(`${count(left)} more, hardly related`, "", more, { class: "plain" }) : null);
    this.hits.keep(this.drawnFor !== this.askedFor);
    this.drawnFor = this.askedFor;
    if (isCompared) void this.compareWithNow(answer);
  }

  /**
   * Show what happened since to the hits of a past day.
   * @param {RecallAnswer} past
   */
  async compareWithNow(past) {
    for (const hit of past.memories) {
      try {
        const now = await call("GET /v1/memories/{id}", {}, { part: hit.id });
        const row = this.hits.list.querySelector(`[data-id="${hit.id}"] .body`);
        if (!row) continue;
        row.append(
          now.content === hit.content
            ? h("p", { class: "meta" }, now.state === "active" ? "the same now" : `now ${now.state}`)
            : h("p", {}, difference(hit.content, now.content)),
        );
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 404) return this.page.fail(error);
      }
    }
  }

  /** @param {RecallAnswer} answer */
  noHit(answer) {
    const left = (answer.trace?.left_out ?? [])
      .filter((each) => each.count)
      .sort((one, other) => other.count - one.count)
      .slice(0, 4);
    return h(
      "div",
      { class: "empty" },
      h("h2", {}, "Nothing was found"),
      h("p", {}, `None of ${memoriesText(answer.trace?.in_question ?? 0)} in question holds words or the sense of it.`),
      left.length
        ? h(
            "ul",
            {},
            left.map((each) => h("li", {}, `left out by ${each.reason}: ${count(each.count)} (wanted: ${each.wants})`)),
          )
        : null,
      this.chips.isEmpty ? null : button("Without the filters", "", () => this.chips.clear()),
    );
  }

  /** Draw why the selected hit is where it is, and how the list came to be. */
  drawWhy() {
    const id = this.hits.current();
    const reasons = id ? this.why(id) : [];
    if (!reasons.length || !this.answer) return fill(this.side);
    const funnelPart = h("section", {}, h("h3", {}, "How the list came to be"), funnel(this.answer));
    fill(this.side, ...reasons, funnelPart, this.otherMemory());
  }

  /**
   * Return why a hit is where it is, compared with the one above it; nothing for what is no hit.
   * @param {string} id
   * @returns {import("../html.js").Children[]}
   */
  why(id) {
    const { answer } = this;
    const hits = answer?.memories.filter((hit) => !hit.was) ?? [];
    const index = hits.findIndex((hit) => hit.id === id);
    const hit = hits[index];
    const above = hits[index - 1];
    const of = (/** @type {Hit | undefined} */ each) =>
      answer?.trace?.candidates.find((candidate) => candidate.id === each?.id);
    const [mine, other] = [of(hit), of(above)];
    if (!answer?.trace || !mine) return [];
    const lacks = answer.trace.words.filter((word) => !mine.holds.includes(word));
    const nearness =
      mine.similarity === null ? "not known: no vector yet" : `close in meaning (${mine.similarity.toFixed(2)})`;
    return [
      h("h2", {}, above ? `Hit ${index + 1}, against hit ${index}` : `Hit ${index + 1}`),
      h("p", {}, scoreWords(answer.ranker, hit.score), mine.why.length ? h("b", {}, ` ${sentence(mine.why)}`) : null),
      this.whyBars(mine, other, index, hit.score, above?.score),
      h(
        "section",
        {},
        h("h3", {}, "What it has of the question"),
        h(
          "p",
          {},
          h("b", {}, mine.holds.join(", ") || "none of its words"),
          lacks.length ? ` · lacks ${lacks.join(", ")}` : "",
          ` · ${nearness}`,
        ),
      ),
    ];
  }

  /**
   * @param {Candidate} mine
   * @param {Candidate | undefined} other
   * @param {number} index
   * @param {number} score
   * @param {number | undefined} otherScore
   */
  whyBars(mine, other, index, score, otherScore) {
    const own = groupsOf(mine);
    if (!own) return h("p", { class: "meta" }, "The shares of this ranker are not summed by kind.");
    const theirs = other ? groupsOf(other) : null;
    const scale = Math.max(
      0.01,
      ...GROUPS.flatMap((name) => [Math.abs(own[name] ?? 0), Math.abs(theirs?.[name] ?? 0)]),
    );
    const total = (/** @type {Partial<Record<string, number | null>>} */ groups) =>
      GROUPS.reduce((sum, name) => sum + (groups[name] ?? 0), 0);
    return h(
      "section",
      { class: "why-bars" },
      GROUPS.map((name) => {
        const value = own[name];
        const tick = theirs?.[name];
        return h(
          "div",
          { class: "why-bar" },
          h("span", {}, name, h("span", { class: "meta" }, ` ${GROUP_WORDS[name]}`)),
          h(
            "span",
            { class: "axis" },
            value === null || value === undefined ? null : half(value / scale),
            tick === null || tick === undefined
              ? null
              : h("i", { class: "tick", style: { "inset-inline-start": `${50 + (50 * tick) / scale}%` } }),
          ),
          h("span", { class: "value" }, value === null || value === undefined ? "–" : signed(value)),
        );
      }),
      h(
        "div",
        { class: "why-bar" },
        h("span", {}, "all together"),
        h("span", { class: "legend" }, `▮ hit ${index + 1}`, theirs ? ` ❘ hit ${index}` : ""),
        h("span", { class: "value" }, h("b", {}, signed(total(own)))),
      ),
      h(
        "p",
        { class: "meta" },
        `${signed(total(own))} makes a score of ${score.toFixed(2)}`,
        theirs && otherScore !== undefined
          ? `; hit ${index} has ${signed(total(theirs))}, which makes ${otherScore.toFixed(2)}.`
          : ".",
      ),
    );
  }

  otherMemory() {
    const field = h("input", {
      type: "text",
      placeholder: "its id, or words of it",
      "aria-label": "Why is another not here?",
      dir: "auto",
    });
    const place = h("div", { "aria-live": "polite" });
    const ask = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        let id = field.value.trim();
        if (!/^[0-9a-f-]{4,36}$/i.test(id)) {
          const { memories } = await call("GET /v1/search", { q: id, limit: 1, namespace: this.page.namespace });
          if (!memories[0]) return fill(place, h("p", {}, "No memory has these words."));
          id = memories[0].id;
        }
        const answer = await call("POST /v1/why", { ...this.request(), id });
        fill(
          place,
          h("p", {}, answer.sentence),
          button("Open it", "", () => this.page.set({ id: answer.id }), { class: "plain" }),
        );
      } catch (error) {
        if (error instanceof ApiError) fill(place, h("p", {}, error.message));
        else throw error;
      }
    };
    return h("section", {}, h("h3", {}, "Why is another not here?"), h("form", { on: { submit: ask } }, field), place);
  }
}

/**
 * The contributions in five groups, where the daemon has summed them.
 * @param {Candidate} candidate
 * @returns {Partial<Record<string, number | null>> | null}
 */
function groupsOf(candidate) {
  return /** @type {any} */ (candidate).groups ?? null;
}

/**
 * @param {Candidate | undefined} candidate
 * @param {number} scale
 */
function bars(candidate, scale) {
  const groups = candidate && groupsOf(candidate);
  if (!groups) return h("span", { class: "bars" });
  const words = GROUPS.map(
    (name) =>
      `${name} ${groups[name] === null || groups[name] === undefined ? "not known" : signed(groups[name] ?? 0)}`,
  ).join(", ");
  return h(
    "span",
    { class: "bars", role: "img", "aria-label": words, title: words },
    GROUPS.map((name) => {
      const value = groups[name];
      if (value === null || value === undefined) return h("span", { class: "unknown" }, "–");
      const share = Math.min(1, Math.abs(value) / scale);
      return h(
        "span",
        {},
        h("i", { class: value < 0 ? "down" : "up", style: { height: `${Math.max(1, Math.round(13 * share))}px` } }),
      );
    }),
  );
}

/** @param {number} share from -1 to 1 */
function half(share) {
  const width = `${50 * Math.min(1, Math.abs(share))}%`;
  return h("i", {
    class: share < 0 ? "down" : "up",
    style: { [share < 0 ? "inset-inline-end" : "inset-inline-start"]: "50%", width },
  });
}

/**
 * Say what a score means.
 * @param {string} ranker
 * @param {number} score
 */
function scoreWords(ranker, score) {
  if (ranker === "words") return `${Math.round(100 * score)}% of the question is in it.`;
  if (ranker !== "auto") return `A score of ${score.toFixed(2)} by the ranker ${ranker}.`;
  const shares = /** @type {[number, string][]} */ ([
    [0.9, "Nine in ten"],
    [0.75, "Three in four"],
    [0.6, "Two in three"],
    [0.42, "Nearly one in two"],
    [0.28, "One in three"],
    [0.15, "One in five"],
    [0.07, "One in ten"],
  ]);
  const share = shares.find(([least]) => score >= least)?.[1] ?? "Hardly any";
  return `${share} hits with ${score.toFixed(2)} answer the question.`;
}

/** @param {string[]} reasons */
const sentence = (reasons) => `${reasons.join(", ").replace(/^./, (first) => first.toUpperCase())}.`;

/** @param {RecallAnswer} answer */
function funnel(answer) {
  const trace = /** @type {import("../../api_types").RecallTrace} */ (answer.trace);
  const found = Object.fromEntries(trace.channels.map((each) => [each.name, each.found]));
  /** @type {[string, string][]} */
  const rows = [
    ["memories", count(trace.memories)],
    ...trace.left_out
      .filter((each) => each.count)
      .map((each) => /** @type {[string, string]} */ ([`left out: ${each.reason}`, count(-each.count)])),
    ["in question", count(trace.in_question)],
    [
      "found by words · by meaning",
      `${count(found.words ?? 0)} · ${found.vectors === undefined ? "–" : count(found.vectors)}`,
    ],
    ...Object.entries(trace.dropped).map(
      ([reason, number]) => /** @type {[string, string]} */ ([reason.replaceAll("_", " "), count(-number)]),
    ),
    ["shown", count(answer.memories.length)],
  ];
  return h(
    "dl",
    { class: "funnel" },
    rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}
