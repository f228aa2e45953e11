// Find one thing, and see why it is first.

import { ApiError, call } from "../api.js";
import { asOfSlider } from "../as_of.js";
import { Chips } from "../chips.js";
import { count, counted, day, duration, memories as memoriesText } from "../format.js";
import { button, fill, h, memoryText, plainButton } from "../html.js";
import { excerpt, memoryList, memoryRow, metaLine, plainRow } from "../memory.js";
import { difference } from "../diff.js";
import { emptyState, commandLine, failure, firstSteps, News } from "../part.js";
import { bars, funnel, GROUPS, groupsOf, scoreWords, sentence, whyBars } from "./search/why.js";

/** @typedef {import("../../api_types").RecallAnswer} RecallAnswer */
/** @typedef {import("../../api_types").RecallRequest} RecallRequest */
/** @typedef {import("../../api_types").RecalledMemory} Hit */

const QUIET_MS = 60; // after the last key, until the memory is asked
const WHY_MS = 120; // after the hits, until their reasons are read: they are ten times as large
const ANSWER_MS = 400; // until it is asked for an answer in sentences
const ANSWER_WORDS = 3; // a question of fewer is not answered by itself
const HITS = 20;
const SLOW_MS = 300;
const HITS_ALWAYS = 3; // are shown however little they have to do with the question
const FAINT = 0.05; // hits with less are shown when they are asked for
/** @type {import("../app.js").View} */
export default { title: "Search", mount: (place, page) => new Search(place, page) };

class Search {
  /** @param {HTMLElement} place @param {import("../app.js").Page} page */
  constructor(place, page) {
    this.page = page;
    /** @type {RecallAnswer | null} */
    this.answer = null;
    /** @type {AbortController | null} */
    this.asking = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.whyTimer = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.answerTimer = undefined;
    this.askedFor = "";
    this.drawnFor = ""; // what the hits on the screen were asked for
    this.typedQuery = ""; // what stands in the field; an address that says something else has come from elsewhere
    this.news = new News(() => void this.ask());
    this.field = h("input", {
      type: "search",
      placeholder: "Search your memory",
      "aria-label": "Search your memory",
      autocomplete: "off",
      spellcheck: "false",
      dir: "auto",
      on: { input: () => this.typed(), keydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event) },
    });
    this.took = h("span.meta", { role: "status" });
    this.chips = new Chips(page);
    this.slider = asOfSlider(page);
    this.banner = h("div");
    this.sentences = h("div.answer", { "aria-live": "polite" });
    this.summary = h("div.list-head");
    this.hits = memoryList(page, "Hits", () => this.drawWhy());
    this.rest = h("div.meta");
    this.side = h("aside.side", { "aria-label": "Why it is here" });
    fill(
      place,
      h(
        "div.main-column",
        h("h1.hidden", "Search"),
        h(
          "form.search-field",
          {
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

  /** @param {import("../app.js").Route} route */
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
    this.stop();
  }

  /** @param {string} name */
  heard(name) {
    if (name === "change") this.news.add(1);
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
      highlight: true,
      dry: true,
      ...this.chips.filters(),
      as_of: params.get("as_of"),
    };
  }

  /** End what is asked. */
  stop() {
    for (const each of [this.timer, this.whyTimer, this.answerTimer]) clearTimeout(each);
    this.asking?.abort();
  }

  async ask() {
    this.stop();
    this.news.clear();
    const request = this.request();
    this.drawBanner();
    fill(this.sentences);
    this.sentences.hidden = !request.query.trim();
    this.summary.classList.toggle("plain-head", this.sentences.hidden);
    if (this.sentences.hidden) return this.drawBeginning();
    const asking = new AbortController();
    this.asking = asking;
    const began = performance.now();
    const slow = setTimeout(() => {
      this.took.textContent = `reading ${memoriesText(this.page.status?.memories ?? 0)} …`;
    }, SLOW_MS);
    try {
      this.answer = await call("POST /v1/recall", request, { signal: asking.signal });
      clearTimeout(slow);
      this.took.textContent = duration((performance.now() - began) / 1000);
      if (this.answer.memories.length) {
        this.drawHits();
        this.whyTimer = setTimeout(() => void this.explain(request, asking), WHY_MS);
      } else await this.explain(request, asking);
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
        failure(error.message, () => void this.ask()),
      );
    } finally {
      clearTimeout(slow);
    }
  }

  /**
   * Read why the hits are where they are, and draw it where its place is kept.
   * @param {RecallRequest} request
   * @param {AbortController} asking
   */
  async explain(request, asking) {
    try {
      const asked = { ...request, highlight: false, explain: true };
      const { trace } = await call("POST /v1/recall", asked, { signal: asking.signal });
      if (asking.signal.aborted || !this.answer) return;
      this.answer = { ...this.answer, trace };
      if (this.answer.memories.length) this.drawBars();
      else this.drawHits();
      this.drawWhy();
      this.page.card?.drawWhy();
    } catch (error) {
      this.page.fail(error);
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

  /** @param {import("../../api_types").AskAnswer} answer @param {number} seconds */
  drawAnswer(answer, seconds) {
    if (answer.abstained) {
      fill(this.sentences, h("p.meta", "The memories do not hold the answer."));
      return;
    }
    const numbers = new Map(
      (this.answer?.memories ?? []).map((hit, index) => [hit.id, hit.was ? "was" : String(index + 1)]),
    );
    const cite = (/** @type {string} */ id) =>
      h(
        "button.cite",
        {
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
      h("p.sentences", answer.sentences.map((each) => [memoryText(each.text), each.ids.map(cite), " "]).flat()),
      h(
        "p.meta",
        `Answer in ${counted(answer.sentences.length, "sentence")}, each with its memory · ${how} · ${duration(seconds)}`,
        answer.time?.text ? ` · ${answer.time.text}` : "",
        answer.sensitive ? ` · ${memoriesText(answer.sensitive)} marked sensitive match as well` : "",
      ),
    );
  }

  drawBanner() {
    const asOf = this.page.route.params.get("as_of");
    fill(
      this.banner,
      asOf
        ? h(
            "p.past-line",
            { role: "status" },
            `◷ As it was on ${day(Date.parse(asOf))}. Nothing can be edited here. `,
            plainButton("Back to now", () => this.page.set({ as_of: null })),
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
        h("span.meta", `The last of ${memoriesText(total)}, by the time when they happened`),
        this.news.place,
      );
      fill(
        this.hits.list,
        memories.map((memory) => plainRow(memory)),
      );
      this.hits.keep();
    } catch (error) {
      if (error instanceof ApiError && error.isGone) return this.page.noteDaemon(false);
      this.page.fail(error);
    }
  }

  drawEmptyStore() {
    fill(this.summary);
    fill(
      this.hits.list,
      emptyState(
        "There is no memory yet",
        "Nothing was remembered in this store. Three ways to begin:",
        ...firstSteps(),
        commandLine("Let your agents remember:", "mnemo setup claude-code"),
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
        "span.grow",
        counted(hits, "hit"),
        was ? ` and ${counted(was, "older value")}` : "",
        answer.total > answer.memories.length ? h("span.meta", ` of ${count(answer.total)} found`) : "",
        answer.abstained ? h("span.meta", " · none is close enough to be an answer") : "",
        answer.time?.text ? h("span.meta", ` · ${answer.time.text}`) : "",
        this.news.place,
      ),
      h(
        "span.bar-heads",
        { "aria-hidden": "true" },
        GROUPS.map((name) => h("span", name)),
      ),
      h("span.score", "score"),
    );
  }

  drawHits() {
    const answer = /** @type {RecallAnswer} */ (this.answer);
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
        h("span.rank", hit.was ? "was" : String(rank)),
        h(
          "div.body",
          excerpt(hit),
          metaLine(hit, { date }),
          hit.others ? h("span.meta", `and ${counted(hit.others, "passage")} of the same note`) : null,
        ),
        h("span.bars"),
        h("span.score", hit.was ? "" : hit.score.toFixed(2)),
      );
    });
    fill(this.hits.list, rows);
    const more = () => this.page.set({ all: "1" });
    fill(this.rest, left ? plainButton(`${count(left)} more, hardly related`, more) : null);
    this.hits.keep(this.drawnFor !== this.askedFor);
    this.drawnFor = this.askedFor;
    if (isCompared) void this.compareWithNow(answer);
  }

  /** Draw the bars of the hits, all on one scale. */
  drawBars() {
    const candidates = this.answer?.trace?.candidates ?? [];
    const sums = candidates.flatMap((each) => GROUPS.map((name) => Math.abs(groupsOf(each)?.[name] ?? 0)));
    const scale = Math.max(0.01, ...sums);
    for (const each of candidates) {
      const row = this.hits.list.querySelector(`[data-id="${each.id}"]:not(.was) .bars`);
      row?.replaceWith(bars(each, scale));
    }
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
            ? h("p.meta", now.state === "active" ? "the same now" : `now ${now.state}`)
            : h("p", difference(hit.content, now.content)),
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
    return emptyState(
      "Nothing was found",
      `None of ${memoriesText(answer.trace?.in_question ?? 0)} in question holds words or the sense of it.`,
      left.length
        ? h(
            "ul",
            left.map((each) => h("li", `left out by ${each.reason}: ${count(each.count)} (wanted: ${each.wants})`)),
          )
        : null,
      this.chips.isEmpty ? null : button("Without the filters", "", () => this.chips.clear()),
    );
  }

  /** Draw why the selected hit is where it is, and how the list came to be. */
  drawWhy() {
    const id = this.hits.current();
    const reasons = id ? this.why(id) : [];
    if (!this.answer?.trace) return; // they are being read, and the old ones stay until then
    if (!reasons.length) return fill(this.side);
    const funnelPart = h("section", h("h3", "How the list came to be"), funnel(this.answer));
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
      h("h2", above ? `Hit ${index + 1}, against hit ${index}` : `Hit ${index + 1}`),
      h("p", scoreWords(answer.ranker, hit.score), mine.why.length ? h("b", ` ${sentence(mine.why)}`) : null),
      whyBars(mine, other, index, hit.score, above?.score),
      h(
        "section",
        h("h3", "What it has of the question"),
        h(
          "p",
          h("b", mine.holds.join(", ") || "none of its words"),
          lacks.length ? ` · lacks ${lacks.join(", ")}` : "",
          ` · ${nearness}`,
        ),
      ),
    ];
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
          if (!memories[0]) return fill(place, h("p", "No memory has these words."));
          id = memories[0].id;
        }
        const answer = await call("POST /v1/why", { ...this.request(), id });
        fill(
          place,
          h("p", answer.sentence),
          plainButton("Open it", () => this.page.set({ id: answer.id })),
        );
      } catch (error) {
        if (error instanceof ApiError) fill(place, h("p", error.message));
        else throw error;
      }
    };
    return h("section", h("h3", "Why is another not here?"), h("form", { on: { submit: ask } }, field), place);
  }
}
