// The turns of a session by the tier in which each is now.

import { count, counted, moment } from "../../format.js";
import { button, fill, h, memoryText, plainButton } from "../../html.js";
import { excerpt } from "../../memory.js";

/** @typedef {import("../../../api_types").MemoryView} Memory */
/** @typedef {import("../../../api_types").SessionAnswer} SessionAnswer */
/** @typedef {"ring" | "recent" | "registry" | "archived"} Tier */

const FIRST = 6; // turns of a tier; the rest is folded

/** @type {[Tier, string, string][]} */
export const TIERS = [
  ["ring", "Ring", "the last 20, shown to the agent as they are"],
  ["recent", "Recent", "left the ring; found by meaning, as a summary"],
  ["registry", "Registry", "question and answer together, in a topic"],
  ["archived", "Archive", "faded; found when asked for"],
];

/**
 * Return the tier of each turn that a pair or its own mark gives it.
 * @param {SessionAnswer} answer
 */
export function tiersOf(answer) {
  const archived = new Set(answer.pairs.filter((pair) => pair.archived).flatMap((pair) => [pair.id, pair.reply]));
  return new Map(
    answer.turns.map(
      (turn) =>
        /** @type {[string, Tier]} */ ([turn.id, archived.has(turn.id) ? "archived" : (turn.turn?.tier ?? "registry")]),
    ),
  );
}

/**
 * @param {SessionAnswer} answer
 * @param {Map<string, Tier>} before the tiers when it was drawn last
 * @param {Map<string, string>} topics names by node
 * @param {Set<Tier>} unfolded
 * @param {() => void} redraw
 */
export function tierSections(answer, before, topics, unfolded, redraw) {
  const tiers = tiersOf(answer);
  const turns = new Map(answer.turns.map((turn) => [turn.id, turn]));
  const moved = (/** @type {string} */ id) => before.size > 0 && before.get(id) !== tiers.get(id);
  return TIERS.map(([tier, title, about]) => {
    const members = answer.turns.filter((turn) => tiers.get(turn.id) === tier);
    const rows =
      tier === "registry" || tier === "archived"
        ? pairRows(answer, turns, members, topics, moved)
        : members.map((turn) => turnRow(turn, moved(turn.id)));
    const total = answer.tiers[tier];
    if (!rows.length && !total) return null;
    const shown = unfolded.has(tier) ? rows : rows.slice(0, FIRST);
    return h(
      "section.tier",
      { "aria-label": title },
      h(
        "header.row",
        h("h2", title),
        h("span.meta.grow", about),
        h("span.meta", tier === "ring" ? "newest first" : ""),
      ),
      shown.map((each) => each()),
      rows.length > shown.length
        ? button(
            `${count(rows.length - shown.length)} more`,
            "",
            () => {
              unfolded.add(tier);
              redraw();
            },
            { class: "plain more" },
          )
        : rows.length === 0
          ? h("p.meta.more", `${counted(total, "turn is", "turns are")} older than those read so far`)
          : null,
    );
  });
}

/** @param {Memory} turn @param {boolean} isMoved */
const turnRow = (turn, isMoved) => () => {
  const role = turn.turn?.promoted
    ? "recalled"
    : turn.turn?.role === "user"
      ? (turn.speaker ?? "you")
      : turn.turn?.role === "agent"
        ? "agent"
        : turn.trust;
  const summary = turn.turn?.tier === "recent" ? turn.turn.summary : "";
  const body = h("div.body.grow");
  const whole = () =>
    fill(
      body,
      excerpt(turn),
      summary ? h("p.meta", "the turn itself · ", plainButton("its summary", short)) : badges(turn),
    );
  const short = () =>
    fill(
      body,
      memoryText(summary),
      h(
        "p.meta",
        `a summary of ${counted(turn.content.split(/\s+/).length, "word")} · `,
        plainButton("show them", whole),
      ),
    );
  if (summary && !turn.tags.includes("sensitive")) short();
  else whole();
  return h(
    "div",
    { class: `turn ${isMoved ? "moved" : ""}`, tabindex: -1, "data-row": turn.id, "data-id": turn.id },
    h(
      "div.who",
      h("b", { dir: "auto" }, role),
      h("time.meta", { datetime: new Date(turn.event_at).toISOString() }, moment(turn.event_at).replace("today ", "")),
    ),
    body,
  );
};

/** @param {Memory} turn */
const badges = (turn) =>
  turn.turn?.promoted ? h("p.meta", h("span.badge.past", "put back in the ring"), " a memory that was recalled") : null;

/**
 * @param {SessionAnswer} answer
 * @param {Map<string, Memory>} turns
 * @param {Memory[]} members
 * @param {Map<string, string>} topics
 * @param {(id: string) => boolean} moved
 */
function pairRows(answer, turns, members, topics, moved) {
  /** @type {Map<string, import("../../../api_types").TurnPairView>} */
  const pairs = new Map();
  for (const pair of answer.pairs) {
    pairs.set(pair.id, pair);
    if (pair.reply) pairs.set(pair.reply, pair);
  }
  const done = new Set();
  return members.flatMap((turn) => {
    const pair = pairs.get(turn.id);
    if (!pair) return [turnRow(turn, moved(turn.id))];
    if (done.has(pair.id)) return [];
    done.add(pair.id);
    const [question, reply] = [turns.get(pair.id), pair.reply ? turns.get(pair.reply) : undefined];
    const first = question ?? reply ?? turn;
    return [
      () =>
        h(
          "div",
          { class: `turn ${moved(turn.id) ? "moved" : ""}`, tabindex: -1, "data-row": first.id, "data-id": first.id },
          h("div.who", h("b", reply ? "pair" : "alone"), h("time.meta", moment(pair.at).replace("today ", ""))),
          h(
            "div.body.grow",
            h(
              "p",
              question ? h(reply ? "b" : "span", {}, excerpt(question)) : null,
              reply ? [" → ", excerpt(reply)] : null,
            ),
            h(
              "p.meta",
              [
                pair.node ? (topics.get(pair.node) ?? "in a topic") : "in no topic yet",
                `from ${counted(reply ? 2 : 1, "turn")}`,
              ].join(" · "),
            ),
          ),
        ),
    ];
  });
}
