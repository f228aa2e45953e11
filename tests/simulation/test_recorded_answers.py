"""Language-model tasks with the answers of a capable model, from a request to what the store holds. SPEC 9.5, 11, 12

The daemon, its jobs, its store and MiniLM are the real ones. The answers are recorded
(`tests/support/recorded_answers.py`); wrong ones are among them, which have to be refused.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.services import Services
from mnemo_daemon.settings import IngestSettings, LifecycleSettings, LlmSettings, Settings
from tests.simulation.decade import SameThread
from tests.simulation.world import World
from tests.support.recorded_answers import RecordedModel, RecordedModels
from tests.support.samples import quick_folder

MINUTES, HOURS = 60.0, 3600.0
EMBED_WAIT_MS = 10_000  # so that a write has its vector, however busy the machine is

YOGA = ("Mira teaches yoga in the town hall of Porto.", "Mira teaches yoga to beginners in the town hall.")
PIANO = (
    "Der alte Flügel im Wohnzimmer der Villa Kern in Lindau ist von 1961.",
    "Der alte Flügel im Wohnzimmer der Villa Kern in Lindau ist schwarz lackiert.",
)
CHOIR = (
    "Frau Kern singt im großen Chor der evangelischen Kirche von Lindau am Bodensee.",
    "Frau Kern singt seit 2019 im großen Chor der evangelischen Kirche von Lindau.",
)
YOGA_MERGED = "Mira teaches yoga in the town hall of Porto, to beginners."
PIANO_MERGED = "Der alte Flügel im Wohnzimmer der Villa Kern in Lindau ist von 1961 und schwarz lackiert."
CHOIR_MERGED = "Frau Kern singt seit 2019 im großen Chor der evangelischen Kirche von Lindau am Bodensee."
RADIO = (
    "The radio of Anna is a Braun from 1961.",
    "The radio of Anna is a Braun with a broken dial.",
)  # merged with an invention


class RecordedWorld(World):
    """A daemon with MiniLM and recorded answers, whose clock the test sets."""

    def __init__(self, folder: Path, models: Path, model: RecordedModel) -> None:
        super().__init__(folder, Random("recorded"))
        self._models, self._recorded = models, model
        self._settings = Settings(
            llm=LlmSettings(probe=False),
            lifecycle=LifecycleSettings(merge=True, interval_minutes=1440),
            intake=IngestSettings(embed_wait_ms=EMBED_WAIT_MS),
        )

    def _equip(self, daemon: Services) -> None:
        daemon.catalogue = ModelCatalogue(self._models)
        daemon.embedding.close()
        # int8 differs between processors, and with it which memories a prompt has, and in which order.
        daemon.embedding = EmbeddingService(daemon.catalogue, threads=1, numerics="float32")
        daemon.language_model = RecordedModels(self._recorded)

    @property
    def services(self) -> Services:
        assert self.daemon is not None
        return self.daemon

    def open(self) -> None:
        super().open()
        self.services.consolidation._thread = SameThread()
        self.step()

    def always_ask(self) -> None:
        """Ask the model also where the rules see a clear case."""
        known = self.services.configuration
        always = msgspec.structs.replace(known.settings, llm=LlmSettings(level="full", probe=False))
        self.services.configuration = known._replace(settings=always)

    def done(self, method: str, route: str, body: Any = None, **more: Any) -> Any:
        answer = self.ask(method, route, body, **more)
        assert answer.is_ok, answer
        return answer.value

    def say(self, *texts: str, **fields: Any) -> list[str]:
        """Remember texts as a person; return their ids. Their vectors are there afterwards."""
        ids = []
        for text in texts:
            said = self.done("POST", "/v1/memories", {"content": text, **fields}, entry_point="cli")
            ids.append(said["memory"]["id"])
            self.step()
        return ids

    def cycle(self) -> dict[str, list[list[str]]]:
        """A cycle of consolidation; the texts that its operations are about, by their action."""
        operations = self.done("POST", "/v1/consolidate", {})["operations"]
        found: dict[str, list[list[str]]] = {}
        for each in operations:
            found.setdefault(each["action"], []).append([text for text in each["texts"] if text])
        return found

    def memory(self, memory_id: str) -> Any:
        return self.done("GET", f"/v1/memories/{memory_id}")

    def shown(self) -> set[str]:
        return {each["content"] for each in self.done("GET", "/v1/memories")["memories"]}

    def answered(self, question: str) -> tuple[str, str]:
        """The answer to a question, and how it was made."""
        answer = self.done("POST", "/v1/ask", {"question": question})
        return answer["answer"], answer["method"]


@pytest.fixture
def world(request: pytest.FixtureRequest, minilm_folder: Path) -> Iterator[RecordedWorld]:
    model = RecordedModel(request.node.name)
    with quick_folder() as folder:
        made = RecordedWorld(folder, minilm_folder, model)
        made.open()
        yield made
        made.throw_away()
    model.require_all_known()


def test_memories_that_say_nearly_the_same_are_merged(world: RecordedWorld) -> None:
    yoga, choir, radio = (world.say(*pair, kind="semantic", importance=0.6) for pair in (YOGA, CHOIR, RADIO))
    world.step(20 * MINUTES)
    world.cycle()
    merged = {each["content"]: each["id"] for each in world.done("GET", "/v1/memories")["memories"]}
    assert set(merged) == {YOGA_MERGED, CHOIR_MERGED, f"{RADIO[1]} {RADIO[0]}"}  # the last one by the rules
    for text, sources in ((YOGA_MERGED, yoga), (CHOIR_MERGED, choir)):
        assert {world.memory(each)["superseded_by"] for each in sources} == {merged[text]}
        assert world.memory(merged[text])["method"] == "llm:recorded.gguf"
    assert [world.memory(each)["state"] for each in radio] == ["superseded", "superseded"]


def test_a_text_that_is_merged_at_its_arrival_is_worded_with_the_earlier_one(world: RecordedWorld) -> None:
    for pair in (YOGA, PIANO, RADIO):
        first, later = world.say(*pair, dedup="source")
        assert later == first
        versions = world.done("GET", f"/v1/memories/{first}/history")["versions"]
        assert versions[-1]["memory"]["content"] == pair[0]
        assert [each["by"] for each in versions][:-2] == (["intake"] if pair is not RADIO else [])
    assert world.shown() == {YOGA_MERGED, PIANO_MERGED, max(RADIO, key=len)}


def test_what_a_newer_memory_replaces_is_superseded(world: RecordedWorld) -> None:
    older = world.say(
        "The office is rented until May 2026.",
        "Die Halle ist bis Mai 2026 gemietet.",
        "The shop takes orders by fax.",
        importance=0.9,
    )
    world.step(2 * HOURS)
    world.cycle()
    newer = world.say(
        "The office is now rented until December 2028.",
        "Die Halle ist jetzt bis Dezember 2028 gemietet.",
        "The shop also takes orders by e-mail.",
        importance=0.9,
    )
    world.step(2 * HOURS)
    world.cycle()
    assert [world.memory(each)["superseded_by"] for each in older] == [newer[0], newer[1], None]


def test_statements_and_facts_are_extracted(world: RecordedWorld) -> None:
    texts = (
        "Anna ran the deployment. She moved to Oslo in March, and her brother followed in May.",
        "Yesterday was long. The museum rents its lamps from Jonas, and its chairs too.",
        "Herr Voss leitet die Werkstatt, und Familie Kern liefert jeden Montag das Holz.",
    )
    world.say(*texts, infer=True)
    world.step(MINUTES)
    assert world.shown() == {
        *texts, "Anna ran the deployment.", "Anna moved to Oslo in March.", "Yesterday was long.",
        "The museum rents its lamps from Jonas.",
    }  # fmt: skip
    facts = {(each["subject"], each["predicate"], each["object"]) for each in world.done("GET", "/v1/facts")["facts"]}
    assert facts >= {("The museum", "rents", "its lamps from Jonas"), ("Anna", "move to", "Oslo in March")}


def test_turns_are_judged_and_long_ones_condensed(world: RecordedWorld) -> None:
    texts = (
        "We decided that we never deploy on Fridays, since the last one cost us a weekend.",
        "So the story with the boathouse is this. The council of Lindau wrote in May that the roof has to be renewed "
        "before winter, otherwise they close it. We asked three firms and took Hansen, who starts on 4 September and "
        "wants 9,800 euros. Until then nobody may store boats upstairs.",
        "Also, das war so mit der Wallbox. Elektro Brandt hat sie am 3. Mai in der Garage eingebaut, aber die "
        "Sicherung flog beim Laden ständig heraus. Jetzt wartet die Familie auf den Netzbetreiber, und bis dahin lädt "
        "das Auto nur mit 6 Ampere. Mehr weiß ich auch nicht.",
    )
    turns = [{"role": "user", "content": text} for text in texts]
    world.done("POST", "/v1/turns", {"session_id": "s1", "turns": turns})
    world.step(MINUTES)
    world.done("POST", "/v1/sessions/s1/end", {})
    world.step(MINUTES)
    read = {each["content"]: each for each in world.done("GET", "/v1/sessions/s1")["turns"]}
    assert [read[text]["importance"] for text in texts] == [0.5, 0.7, 0.6]  # the first is a rule's
    assert [read[text]["turn"]["summary"] for text in texts] == [
        "",
        "The council of Lindau wrote in May that the roof of the boathouse has to be renewed before winter. We took "
        "Hansen, who starts on 4 September and wants 9,800 euros.",
        "Elektro Brandt hat die Wallbox am 3. Mai in der Garage eingebaut. Jetzt wartet die Familie auf den "
        "Netzbetreiber, und bis dahin lädt das Auto nur mit 6 Ampere.",
    ]


def test_questions_are_answered_from_what_bears_on_them(world: RecordedWorld) -> None:
    world.say(
        "The retry limit of queue B is 5.",
        "Anna moved to Berlin in May 2019. She is a keeper at the zoo.",
        "Für die Fahrkarte nach Köln haben wir 59 Euro bezahlt.",
        "Am 3. Mai fahren wir zu viert nach Köln.",
        "The flat of Otto is on the second floor.",
    )
    for question, answer in (
        ("Where does Anna work?", "Anna is a keeper at the zoo."),
        ("Was hat die Fahrkarte nach Köln gekostet?", "Die Fahrkarte nach Köln hat 59 Euro gekostet."),
        ("How many retries does queue B allow?", "The retry limit of queue B is 5."),
    ):
        assert world.answered(question) == (answer, "llm")
    for question in ("How many retries does queue A allow?", "Which floor does Anna live on?"):  # answered wrongly
        _, method = world.answered(question)
        assert method == "quotes", "an answer to another question is not taken; whether a quote answers is judged apart"


def test_the_gate_admits_rules_and_reasons_and_nothing_else(world: RecordedWorld) -> None:
    world.always_ask()
    texts = (
        "Never run the migration before the backup has finished; it cost us two days in May.",
        "Wir haben uns für Postgres entschieden, weil die Karten PostGIS brauchen.",
        "The espresso machine in the office kitchen was made in Milan.",
    )
    ids = [*world.say(*texts, importance=0.9), *world.say("went for a walk again", importance=0.3)]
    world.step(20 * MINUTES)
    world.cycle()
    assert [world.memory(each)["layer"] for each in ids] == ["working", "working", "working", "buffer"]
    for _ in range(3):
        world.say(*texts)
    world.step(2 * HOURS)
    world.cycle()
    found = [world.memory(each) for each in ids]
    assert [each["layer"] for each in found] == ["core", "core", "working", "buffer"]
    assert [each["tags"] for each in found[2:]] == [["gate-rejected"], ["_triaged"]]


def test_a_run_is_summarized(world: RecordedWorld) -> None:
    runs = {
        "english": (
            "Read the ticket of the zoo: the invoices of May are missing in the export.",
            "Found that the export stops at 500 rows, and wrote a test that shows it.",
            "Raised the limit to 5,000 rows and deployed it to staging. The zoo checked the export on 3 June and found "
            "all invoices of May in it.",
            "Closed the ticket, after Jonas of the zoo had thanked everybody who worked on the export.",
            "Wrote down in the manual of the export how the limit is raised.",
        ),
        "german": (
            "Anfrage von Familie Kern: Die Heizung im Gartenhaus fällt nachts aus, seit der Regler getauscht wurde.",
            "Im Protokoll gesehen, dass der Regler um 23 Uhr auf 5 Grad stellt, und das mit einem Foto belegt.",
            "Den Regler auf 16 Grad gestellt und zwei Nächte lang gemessen. Die Heizung lief in beiden Nächten durch.",
            "Familie Kern angerufen und die Rechnung über 85 Euro geschickt, die auch den Weg nach Lindau enthält.",
        ),
    }
    for run, actions in runs.items():
        for number, action in enumerate(actions):
            world.done("POST", f"/v1/runs/{run}/steps", {"action": action, "step_number": number})
    english, german = (world.done("POST", f"/v1/runs/{run}/summary", {}) for run in runs)
    assert (english["method"], english["reason"]) == ("llm", None)
    assert english["memory"]["content"].startswith("The invoices of May are missing in the export of the zoo. Found")
    assert (german["method"], german["reason"]) == ("rule", "the number '95 EUR' is in none of the sources")
    assert "85 Euro" in german["memory"]["content"]


def test_an_audit_proposes_what_a_person_may_approve(world: RecordedWorld) -> None:
    world.always_ask()
    (lesson,) = world.say(
        "Lesson: always ask Ines before the prices of the zoo are changed; last time we had to refund 40 tickets.",
        importance=0.7,
    )
    world.step(20 * MINUTES)
    world.cycle()
    (proposal,) = world.done("POST", "/v1/audit", {})["proposals"]
    assert (proposal["action"], proposal["tag"], proposal["memories"][0]["id"]) == ("tag", "lesson", lesson)
    assert world.memory(lesson)["tags"] == []


def test_a_question_is_asked_in_other_words(world: RecordedWorld) -> None:
    world.say(
        "The spare key of the flat is with Mrs. Lind.", "Die Ersatzsicherungen liegen im Keller neben dem Zähler."
    )
    answer = world.done("POST", "/v1/recall", {"query": "opening the apartment", "expand": True})
    assert "spare key of the flat" in answer["expanded"]
    assert answer["memories"][0]["content"].startswith("The spare key")
    # In German every noun has a capital: what is not in the question is refused as a name.
    answer = world.done("POST", "/v1/recall", {"query": "Wo finde ich einen Ersatz?", "expand": True})
    assert answer["expanded"] == []
    assert answer["memories"][0]["content"].startswith("Die Ersatzsicherungen")


def test_a_topic_is_named_and_its_overlapping_members_distilled(world: RecordedWorld) -> None:
    mites, acid = "The bees of hive two have varroa mites.", "The bees of hive two are treated with formic acid."
    world.say(
        mites, acid, "The bees of hive one swarmed in May.", "Hive three gave 12 kilos of honey.",
        "The queen of hive two was replaced by Jonas.", "Jonas checks the bees of the hives every Sunday.",
        "The honey of hive one is dark.", "The bees need sugar water in October.",
        "The bees of hive four stand beside the orchard.", "The honey of hive four is sold by Mrs. Lind.",
        "Jonas checks the bees of the hives for mites.", "The honey of hive three is light.",
    )  # fmt: skip
    world.step(20 * MINUTES)
    for _ in range(100):
        if not world.services.topic_trees.run_slice():
            break
    (topic,) = world.done("GET", "/v1/topics")["topics"]
    assert (topic["name"], topic["method"]) == ("bees and honey", "llm:recorded.gguf")
    world.cycle()
    distilled = "The bees of hive two have varroa mites and are treated with formic acid."
    assert distilled in world.shown()
    assert world.shown().isdisjoint((mites, acid))
