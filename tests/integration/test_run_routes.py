"""The steps of an agent's run and the summary of the run, at their routes. SPEC 2.1, 12, 13"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import NewMemory, Patch, ProcedureTrace
from mnemo_client.protocol.sessions import NewStep
from mnemo_core.llm.faithfulness import rejection_of
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import quick_folder

STEPS = (
    NewStep(
        step_number=1, action="Ran the tests of the parser", outcome="2 of 40 failed",
        key_findings="Both failures are in the date parser", context="branch fix-dates", task_objective="green tests",
    ),
    NewStep(step_number=2, action="Read dates.py", outcome="Found that 29 February is refused"),
    NewStep(step_number=10, action="Corrected the length of February", outcome="All 40 tests pass"),
)  # fmt: skip


def add_steps(client: Client, run: str) -> list[str]:
    """The ids of the steps, stored in another order than that of their numbers."""
    ids = {step.step_number: client.add_step(run, step).memory.id for step in reversed(STEPS)}
    return [ids[step.step_number] for step in STEPS]


def test_a_step_that_a_person_made_a_statement_of_is_not_written_over(client: Client) -> None:
    first = client.add_step("rewritten", NewStep(action="Asked for the doctor")).memory.id
    client.patch(first, Patch(kind="semantic", content="My doctor is Dr Brand."))
    second = client.add_step("rewritten", NewStep(action="Opened the file")).memory.id
    assert second != first
    assert client.get(first).content == "My doctor is Dr Brand."


def test_the_name_of_a_run_is_one_line(client: Client) -> None:
    with pytest.raises(RefusalError, match="a run has a name of 1 to 128 printable characters"):
        client.add_step("release\n=== Core (9) ===", NewStep(action="Opened the file"))


def test_what_a_tool_says_is_no_fact(daemon: RunningDaemon) -> None:
    with daemon.client("tool-facts") as client:
        client.hook("tool", session_id="facts", tool="My employer is Gazprom")
        assert [each for each in client.facts("").facts if each.namespace == "tool-facts"] == []


def test_E12_a_step_is_a_procedural_memory_that_keeps_what_was_done_and_what_came_of_it(client: Client) -> None:
    answer = client.add_step("e12", msgspec.structs.replace(STEPS[0], agent_id="coder"))
    memory = answer.memory
    assert (answer.outcome, memory.kind, memory.form, memory.run_id) == ("stored", "procedural", "step", "e12")
    assert (memory.agent_id, memory.trust) == ("coder", "agent")
    assert memory.trace == ProcedureTrace(
        step_number=1, action="Ran the tests of the parser", outcome="2 of 40 failed",
        key_findings="Both failures are in the date parser", context="branch fix-dates", task_objective="green tests",
    )  # fmt: skip
    assert memory.content == (
        "Ran the tests of the parser: 2 of 40 failed; Both failures are in the date parser.\nContext: branch fix-dates."
    )
    assert [hit.id for hit in client.recall("what failed in the date parser", dry=True).memories] == [memory.id]


def test_E12_the_history_of_a_run_lists_its_steps_by_their_numbers(client: Client) -> None:
    ids = add_steps(client, "ordered")
    client.remember("Another run", run_id="other", trace=ProcedureTrace(step_number=3, action="Another run"))
    answer = client.steps("ordered")
    assert ([step.id for step in answer.steps], answer.summary, answer.cursor) == (ids, None, None)
    first = client.steps("ordered", limit=2)
    assert [step.id for step in first.steps] == ids[:2]
    rest = client.steps("ordered", limit=2, cursor=first.cursor)
    assert ([step.id for step in rest.steps], rest.cursor) == (ids[2:], None)
    assert client.steps("no such run").steps == []


def test_a_repeated_step_number_changes_the_step_and_a_repeated_step_changes_nothing(client: Client) -> None:
    ids = add_steps(client, "edited")
    again = client.add_step("edited", STEPS[1])
    assert (again.outcome, again.memory.id, again.memory.version) == ("duplicate", ids[1], 1)
    other = client.add_step("edited", msgspec.structs.replace(STEPS[1], outcome="It is empty"))
    assert (other.outcome, other.memory.id, other.memory.version) == ("updated", ids[1], 2)
    assert other.memory.trace == ProcedureTrace(step_number=2, action="Read dates.py", outcome="It is empty")
    aimed = client.add_step("edited", msgspec.structs.replace(STEPS[0], task_objective="a release"))
    assert aimed.memory.trace is not None
    assert (aimed.outcome, aimed.memory.trace.task_objective) == ("updated", "a release")
    assert [step.id for step in client.steps("edited").steps] == ids


def test_a_step_without_a_number_comes_behind_all_others_also_those_in_the_trash(client: Client) -> None:
    add_steps(client, "counted")
    last = client.add_step("counted", NewStep(action="Wrote to Ada")).memory
    client.delete(last.id)
    next_one = client.add_step("counted", NewStep(action="Wrote to Ben")).memory
    assert [each.trace.step_number for each in (last, next_one) if each.trace] == [11, 12]
    assert client.get(last.id).state == "trashed"
    assert [step.trace.step_number for step in client.steps("counted").steps if step.trace] == [1, 2, 10, 12]


def test_steps_without_numbers_that_come_at_once_are_all_kept(daemon: RunningDaemon) -> None:
    def add(place: int) -> None:
        with daemon.client() as client:
            client.add_step("at once", NewStep(action="The same step again", step_number=3 if place == 3 else None))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(16)))
    with daemon.client() as client:
        numbers = [step.trace.step_number for step in client.steps("at once").steps if step.trace]
    assert len(numbers) in (15, 16)  # the one with a number replaces the third, if it comes behind that
    assert len({*numbers}) == len(numbers)


def test_E13_a_run_has_one_summary_of_all_its_steps_with_importance_08(client: Client) -> None:
    ids = add_steps(client, "e13")
    made = client.summarize_run("e13")
    summary = made.memory
    assert (made.outcome, made.method) == ("stored", "rule")
    assert (made.reason or "").startswith("the case is clear")
    assert (summary.kind, summary.importance, summary.run_id) == ("procedural", 0.8, "e13")
    assert (summary.derived_from, summary.trace, summary.method) == (ids, None, "rule")
    assert rejection_of(summary.content, [step.content for step in client.steps("e13").steps]) == ""
    for words in ("2 of 40 failed", "29 February is refused", "All 40 tests pass"):
        assert words in summary.content
    listed = client.steps("e13")
    assert ([step.id for step in listed.steps], listed.summary) == (ids, summary)


def test_E13_the_summary_never_puts_the_outcome_of_one_step_behind_another(client: Client) -> None:
    for number in (1, 2, 3):
        client.add_step(
            "tries",
            NewStep(
                step_number=number,
                action=f"Built the image, attempt {number}.",
                outcome=f"exit code {number}.",
                key_findings=f"layer {number} was stale",
            ),
        )
    assert client.summarize_run("tries").memory.content == " ".join(
        f"Built the image, attempt {number}: exit code {number}; layer {number} was stale." for number in (1, 2, 3)
    )


def test_E13_the_summary_is_made_again_when_a_step_has_changed_and_only_then(client: Client) -> None:
    add_steps(client, "again")
    first = client.summarize_run("again").memory
    same = client.summarize_run("again")
    assert (same.outcome, same.memory) == ("duplicate", first)
    step = client.steps("again").steps[2]
    client.patch(step.id, Patch(importance=0.9))
    assert client.summarize_run("again").outcome == "duplicate", "the step says what it said"
    client.add_step("again", msgspec.structs.replace(STEPS[2], outcome="39 tests pass"))
    other = client.summarize_run("again")
    assert (other.outcome, other.memory.id, other.memory.version) == ("updated", first.id, 2)
    assert "39 tests pass" in other.memory.content
    client.add_step("again", NewStep(step_number=11, action="Wrote to Ada"))
    assert "Wrote to Ada" in client.summarize_run("again").memory.content
    assert client.steps("again").summary == client.get(first.id)


def test_the_summary_is_trusted_as_its_least_trusted_step(client: Client) -> None:
    client.add_step("mixed", STEPS[0])
    client.add_step("mixed", msgspec.structs.replace(STEPS[1], agent_id="coder"))
    summary = client.summarize_run("mixed").memory
    assert (summary.trust, summary.agent_id) == ("agent", None)


def test_the_summary_of_a_long_run_covers_its_end_as_well_as_its_beginning(client: Client) -> None:
    for number in range(1, 151):
        place = {1: "Lisbon", 150: "Tromsø"}.get(number, f"place {number}")
        client.add_step("long", NewStep(step_number=number, action=f"Asked for the weather in {place}", outcome="rain"))
    assert len(client.steps("long", limit=500).steps) == 150
    summary = client.summarize_run("long").memory
    assert len(summary.content) <= 400
    assert "Tromsø" in summary.content


def test_secrets_in_any_part_of_an_agents_step_are_masked_and_a_persons_step_is_sensitive(
    client: Client, daemon: RunningDaemon
) -> None:
    key = "AKIAIOSFODNN7EXAMPLQ"
    step = NewStep(step_number=1, action="Logged in", context=f"with {key}", task_objective=f"use {key}")
    made = client.add_step("agents", msgspec.structs.replace(step, agent_id="coder"))
    assert made.masked
    assert key not in msgspec.json.encode(made).decode()
    assert client.add_step("persons", step).memory.tags == ["sensitive"]
    with daemon.client(entry_point="mcp") as agent:
        assert agent.steps("persons").steps == []
    with pytest.raises(RefusalError) as refused:
        client.summarize_run("persons")
    assert refused.value.status == 404
    plain = client.remember(NewMemory(content="step", trace=ProcedureTrace(step_number=1, action="a", context=key)))
    assert plain.memory.tags == ["sensitive"]


@pytest.mark.parametrize(
    ("run", "step", "field"),
    [
        ("r" * 129, NewStep(step_number=1, action="a"), "run"),
        ("r", NewStep(step_number=1, action=" "), "action"),
        ("r", NewStep(step_number=1, action="a", outcome="\0"), "outcome"),
        ("r", NewStep(step_number=1, action="a", context="c" * 2001), "context"),
        ("r", NewStep(step_number=-1, action="a"), "step_number"),
    ],
)
def test_a_step_that_cannot_be_kept_is_refused_by_its_field(
    client: Client, run: str, step: NewStep, field: str
) -> None:
    with pytest.raises(RefusalError) as refused:
        client.add_step(run, step)
    assert (refused.value.status, refused.value.field) == (400, field)
    with pytest.raises(RefusalError, match="cursor"):
        client.steps("r", cursor="1.2")


def test_a_run_is_summarized_by_the_language_model_or_its_summary_says_why_not(smollm_file: Path) -> None:
    environ = {"MNEMO_MODELS_FOLDER": str(smollm_file.parents[2]), "MNEMO_LLM_LEVEL": "full"}
    with quick_folder() as scratch, running(scratch / "data", environ) as daemon, daemon.client() as client:
        add_steps(client, "written")
        made = client.summarize_run("written")
        assert (made.method == "llm") == made.memory.method.startswith("llm:SmolLM2") == (made.reason is None)
        assert rejection_of(made.memory.content, [step.content for step in client.steps("written").steps]) == ""
