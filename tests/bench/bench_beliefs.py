"""Short beliefs: how exact an answer with `cut: gap` is, what holds before what held, and what has no answer.

    python -m tests.bench.bench_beliefs [--told] [--unseen] [--lives 200] [--rankers auto,words] [--top-k 10]

The belief sets (tests/fixtures/recall) hold aliases, two scopes, chains of values that replaced each other, and much
off the topic. Each is a user of its own; a scope is a namespace. What replaces what is for the daemon to notice; with
--told it is said with `supersedes`. Measured are

- precision and recall of the answers, with `cut: gap` and without;
- of the questions whose answer replaced something, how often the current one is among the answers, and no stale one is
  before it, with replaced ones shown;
- abstention: of questions without an answer in the set and of those about what was never stored, how many get none,
  beside how many that have one get none (false abstentions at the floor); and the risk-coverage curve over all.

`auto` and the cut were fitted on these sets: of them they say too much. With --unseen, sets on which nothing was.

The lives (tests/support/statement_histories.py) are statements about attributes that change, each stored at a moment of
its own. Asked are the value of now, and, `as_of` a moment between two, the value of then.
"""

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecallAnswer
from tests.bench import harness
from tests.bench.tables import rankers_named, share, show
from tests.support import recall_sets
from tests.support.recall_sets import BeliefSet
from tests.support.running_daemon import RunningDaemon
from tests.support.statement_histories import LIVES, HistoryStatement
from tests.support.statement_histories import statement_histories as made_lives

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
SEED = 17
MOMENT_SECONDS = 0.002  # the journal's times are whole milliseconds: a moment apart is another time
TOP_K_OF_LIVES = 10

QUESTIONS = {  # by attribute: of who speaks | of {n}
    "home": ("Where do I live?", "Where does {n} live?"),
    "employer": ("Where do I work?", "Who does {n} work for?"),
    "rent": ("How much is my rent?", "How much rent does {n} pay?"),
    "phone": ("What is my phone number?", "What is {n}'s phone number?"),
    "partner": ("Who is my partner?", "Who is {n} in a relationship with?"),
    "car": ("Which car do I drive?", "What car does {n} drive?"),
    "doctor": ("Who is my doctor?", "Who is {n}'s doctor?"),
    "manager": ("Who is my manager?", "Who is {n}'s boss?"),
    "editor": ("What is my favourite editor?", "Which editor does {n} like best?"),
    "salary": ("What is my salary?", "How much does {n} earn?"),
    "deadline": ("", "When is the deadline for {n}?"),
    "meeting": ("", "At what time is the {n} standup?"),
    "python": ("", "Which Python version does {n} use?"),
    "port": ("", "Which port does {n} run on?"),
    "database": ("", "Which database does {n} use?"),
    "budget": ("", "What is the budget for {n}?"),
}


class BeliefProbe(NamedTuple):
    """A question to a set. right: the ids of what answers it, stale: of what those replaced. absent: about what no set
    holds."""

    user: str
    namespace: str
    text: str
    right: frozenset[str]
    stale: frozenset[str] = frozenset()
    absent: bool = False


def main(
    *, told: bool = False, unseen: bool = False, top_k: int = 10, lives: int = LIVES, no_sets: bool = False,
    rankers: str = "auto,words,cosine,hybrid",
) -> None:  # fmt: skip
    named = rankers_named(rankers)
    with harness.new_daemon() as (daemon, client):
        daemon.wait_for_vectors()
        if not no_sets:
            found = recall_sets.belief_sets(recall_sets.UNSEEN if unseen else recall_sets.FOLDER)
            sets(daemon, client, found, named, top_k, reported=told)
        for held_out in (False, True) if lives else ():
            statement_histories(client, lives, named, held_out=held_out)


# Belief sets


def sets(
    daemon: RunningDaemon,
    client: Client,
    found: Sequence[BeliefSet],
    rankers: Sequence[Ranker],
    top_k: int,
    *,
    reported: bool,
) -> None:
    asked = [put for each in found for put in remember(client, each, reported=reported)]
    daemon.wait_for_vectors()
    users = [each.name for each in found]
    never = [
        BeliefProbe(users[at % len(users)], "*", text, frozenset(), absent=True)
        for at, text in enumerate(recall_sets.absent())
    ]
    said = "said" if reported else "left to be noticed"
    print(f"{sum(len(each.beliefs) for each in found)} beliefs in {len(found)} sets; what replaces what is {said}")
    show_precision(client, asked, rankers, top_k)
    show_sets(client, asked, rankers[0], top_k)
    show_stale(client, asked, rankers, top_k)
    show_abstention(client, asked + never, rankers, top_k)


def remember(client: Client, each: BeliefSet, *, reported: bool) -> list[BeliefProbe]:
    """Stores the set in the order of its lines; its questions."""
    ids: dict[str, str] = {}
    for belief in each.beliefs:
        replaced = [ids[belief.replaces]] if reported and belief.replaces else []
        kept = client.remember(
            belief.text, kind=belief.kind, event_at=belief.at.isoformat(), user_id=each.name, supersedes=replaced,
            namespace=belief.scope or "default",
        )  # fmt: skip
        ids[belief.id] = kept.memory.id
    puts = []
    for question in each.questions:
        right = frozenset(ids[name] for name in question.answers)
        stale = frozenset(ids[old] for name in question.answers for old in each.older(name))
        puts.append(BeliefProbe(each.name, question.scope or "default", question.text, right, stale - right))
    return puts


def ask(client: Client, put: BeliefProbe, ranker: Ranker, top_k: int, **options: Any) -> RecallAnswer:
    return client.recall(
        put.text, ranker=ranker, top_k=top_k, user_id=put.user, namespace=put.namespace, dry=True, **options
    )


def exactness(client: Client, put: BeliefProbe, ranker: Ranker, top_k: int, cut: str) -> tuple[float, float, int]:
    """Precision, recall, and how many answers. No answer at all is neither precise nor complete."""
    ids = [memory.id for memory in ask(client, put, ranker, top_k, cut=cut).memories]
    right = len(put.right.intersection(ids))
    return right / len(ids) if ids else 0.0, right / len(put.right), len(ids)


def show_precision(client: Client, asked: Sequence[BeliefProbe], rankers: Sequence[Ranker], top_k: int) -> None:
    with_answer = [put for put in asked if put.right]
    rows: dict[str, list[object]] = {}
    for ranker in rankers:
        for cut in ("none", "gap"):
            found = [exactness(client, put, ranker, top_k, cut) for put in with_answer]
            precision, recall, count = (list(column) for column in zip(*found, strict=True))
            rows[f"{ranker}, cut {cut}"] = [share(precision), share(recall), f"{np.mean(count):.1f}"]
    show(f"Precision and recall, top_k {top_k}: {len(with_answer)} questions with an answer, % [95% interval]",
         ["precision", "recall", "answers, mean"], rows)  # fmt: skip


def show_sets(client: Client, asked: Sequence[BeliefProbe], ranker: Ranker, top_k: int) -> None:
    rows: dict[str, list[object]] = {}
    for user in sorted({put.user for put in asked}):
        found = [exactness(client, put, ranker, top_k, "gap") for put in asked if put.right and put.user == user]
        precision, recall, count = (list(column) for column in zip(*found, strict=True))
        rows[user] = [len(found), share(precision), share(recall), f"{np.mean(count):.1f}"]
    show(f"{ranker}, cut gap, by set", ["questions", "precision", "recall", "answers, mean"], rows)


def show_stale(client: Client, asked: Sequence[BeliefProbe], rankers: Sequence[Ranker], top_k: int) -> None:
    changed = [put for put in asked if put.stale]
    rows: dict[str, list[object]] = {}
    for ranker in rankers:
        first, found, shown, alone = [], [], [], []
        for put in changed:
            ids = [memory.id for memory in ask(client, put, ranker, top_k, include_superseded=True).memories]
            current = min((ids.index(name) for name in put.right if name in ids), default=top_k)
            stale = min((ids.index(name) for name in put.stale if name in ids), default=top_k)
            found.append(float(current < top_k))
            first.append(float(current < stale))
            shown.append(float(stale < top_k))
            plain = [memory.id for memory in ask(client, put, ranker, top_k).memories]
            alone.append(float(not put.stale.intersection(plain)))
        rows[ranker] = [share(found), share(first), share(shown), share(alone)]
    show(f"Current before stale: {len(changed)} questions whose answer replaced something, replaced ones shown",
         ["current is there", "and before any stale", "a stale one is there", "without asking, no stale one is"],
         rows)  # fmt: skip


def show_abstention(client: Client, asked: Sequence[BeliefProbe], rankers: Sequence[Ranker], top_k: int) -> None:
    rows: dict[str, list[object]] = {}
    for ranker in rankers:
        abstained, strengths, wrong = [], [], []
        for put in asked:
            cut = ask(client, put, ranker, top_k, cut="gap")
            abstained.append(float(cut.abstained))
            answer = ask(client, put, ranker, top_k, explain=True)
            strengths.append(strength(answer))
            wrong.append(float(not answer.memories or answer.memories[0].id not in put.right))
        groups = {
            "false abstentions": [value for value, put in zip(abstained, asked, strict=True) if put.right],
            "no answer in the set": [
                value for value, put in zip(abstained, asked, strict=True) if not put.right and not put.absent
            ],
            "never stored": [value for value, put in zip(abstained, asked, strict=True) if put.absent],
        }
        risks = risk_coverage(strengths, wrong)
        rows[ranker] = [*map(share, groups.values()), *(f"{risks[at]:.2f}" for at in COVERAGES),
                        f"{float(np.mean(list(curve(strengths, wrong)))):.3f}"]  # fmt: skip
    counts = (sum(bool(put.right) for put in asked), sum(not put.right and not put.absent for put in asked),
              sum(put.absent for put in asked))  # fmt: skip
    names = [
        f"{name} ({count})"
        for name, count in zip(("false: has an answer", "none in the set", "never stored"), counts, strict=True)
    ]
    show(f"Abstention with cut gap, and the risk (first answer not right) at each coverage: {len(asked)} questions",
         [*names, *(f"{at:.0%}" for at in COVERAGES), "area"], rows)  # fmt: skip


def strength(answer: RecallAnswer) -> float:
    """The confidence of the daemon in its best answer: the value compared with the floor; else the best score."""
    candidates = answer.trace.candidates if answer.trace is not None else []
    known = [each.cut["strength"] for each in candidates if "strength" in each.cut]
    if known:
        return float(max(known))
    return max((memory.score for memory in answer.memories), default=0.0)


def curve(strengths: Sequence[float], wrong: Sequence[float]) -> np.ndarray:
    """The share of wrong first answers among the surest 1, 2, 3 … questions."""
    order = np.argsort(-np.asarray(strengths), kind="stable")
    risks: np.ndarray = np.cumsum(np.asarray(wrong)[order]) / np.arange(1, len(order) + 1)
    return risks


def risk_coverage(strengths: Sequence[float], wrong: Sequence[float]) -> dict[float, float]:
    risks = curve(strengths, wrong)
    return {at: float(risks[max(1, round(at * len(risks))) - 1]) for at in COVERAGES}


# Lives


class StoredStatements(NamedTuple):
    """A life in its namespace: its statements, their ids, and a moment behind each."""

    namespace: str
    life: list[HistoryStatement]
    ids: list[str]
    behind: list[int]


class Value(NamedTuple):
    """A question about a life: the value of an attribute, after the statement at `at` of those that give one."""

    question: str
    key: tuple[str, str]
    value: str
    as_of: int | None


def statement_histories(client: Client, count: int, rankers: Sequence[Ranker], *, held_out: bool) -> None:
    chance = random.Random(SEED)
    first: dict[tuple[Ranker, bool], list[float]] = defaultdict(list)
    before: dict[tuple[Ranker, bool], list[float]] = defaultdict(list)
    for number, life in enumerate(made_lives(count, held_out=held_out)):
        stored = store(client, life, f"life-{number}-{held_out}")
        for value in values(stored, chance):
            for ranker in rankers:
                is_first, is_before = judged(client, stored, value, ranker)
                first[ranker, value.as_of is not None].append(is_first)
                before[ranker, value.as_of is not None].append(is_before)
    rows: dict[str, list[object]] = {
        ranker: [share(first[ranker, False]), share(before[ranker, False]),
                 share(first[ranker, True]), share(before[ranker, True])]
        for ranker in rankers
    }  # fmt: skip
    now, then = len(first[rankers[0], False]), len(first[rankers[0], True])
    show(f"{count} lives, {'held-out' if held_out else 'tuned'} wordings: {now} questions of now, {then} as of then",
         ["now: first of all", "before any other value", "as of: first of all", "before any other value"],
         rows)  # fmt: skip


def store(client: Client, life: list[HistoryStatement], namespace: str) -> StoredStatements:
    ids, behind = [], []
    for said in life:
        kept = client.remember(NewMemory(
            content=said.text, event_at=said.at, namespace=namespace, speaker=said.speaker or None, wait="indexed",
        ))  # fmt: skip
        ids.append(kept.memory.id)
        time.sleep(MOMENT_SECONDS)
        behind.append(time.time_ns() // 1_000_000)
        time.sleep(MOMENT_SECONDS)
    return StoredStatements(namespace, life, ids, behind)


def values(stored: StoredStatements, chance: random.Random) -> list[Value]:
    """Of every attribute that changed, the value of now, and of a moment before its last change."""
    found = []
    for key in dict.fromkeys(said.key for said in stored.life if said.value):
        places = [at for at, said in enumerate(stored.life) if said.key == key]
        last = stored.life[places[-1]].value
        change = next((at for at in places if stored.life[at].value == last), places[-1])
        earlier = [at for at in places if at < change]
        if earlier:
            question = asked_of(key, stored.life[0].speaker)
            at = chance.choice(earlier)
            found.append(Value(question, key, last, None))
            found.append(Value(question, key, stored.life[at].value, stored.behind[at]))
    return found


def asked_of(key: tuple[str, str], speaker: str) -> str:
    """The question about a value: a speaker asks about their own; if the speaker is named, others ask."""
    own, of_name = QUESTIONS[key[1]]
    name = key[0] or speaker
    return of_name.replace("{n}", name) if name else own


def judged(client: Client, stored: StoredStatements, value: Value, ranker: Ranker) -> tuple[float, float]:
    """True if the right value is the first answer, and whether it is there and before every other of its attribute."""
    answer = client.recall(
        value.question, ranker=ranker, namespace=stored.namespace, as_of=value.as_of, top_k=TOP_K_OF_LIVES, dry=True
    )
    said = dict(zip(stored.ids, stored.life, strict=True))
    found = [said[memory.id] for memory in answer.memories]
    of_key = [each for each in found if each.key == value.key]
    is_first = bool(found) and found[0].key == value.key and found[0].value == value.value
    return float(is_first), float(bool(of_key) and of_key[0].value == value.value)


if __name__ == "__main__":
    harness.run(main)
