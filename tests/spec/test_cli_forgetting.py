"""Requests, questions and output of `mnemo forget` and `mnemo trash empty`. SPEC 14"""

import json

import pytest

from mnemo_client.protocol.erasure import EraseAnswer, Quotation, ResidueSearch, SearchedPlace
from tests.canned import ID, CannedDaemon, CannedPerson, recalled

OTHER = "01890000-0000-7000-8000-00000000beef"
REPORT = EraseAnswer(
    purged=[ID],
    derived=[OTHER],
    rederive={OTHER: [ID[:-8] + "5ca1ab1e"]},
    revived=[ID[:-8] + "5ca1ab1e"],
    places=[
        SearchedPlace(place="db", state="clean", detail="rewritten: 20 to 10 bytes"),
        SearchedPlace(place="quarantine/5.jsonl", state="removed", detail="it held a word"),
    ],
    backups=["/data/backups/one"],
    searched=ResidueSearch(files=9, bytes=1_500_000, needles=12),
)
PLAN = EraseAnswer(purged=[ID], derived=[OTHER], dry_run=True)


@pytest.fixture(autouse=True)
def purge(canned: CannedDaemon) -> None:
    canned.answers["POST /v1/purge"] = lambda asked: PLAN if asked.body.get("dry_run") else REPORT
    canned.say(f"GET /v1/memories/{ID}", recalled())


def at_a_terminal(person: CannedPerson, *words: str, typed: str) -> int:
    person.sits_at_a_terminal = True
    code = person.give(*words, typed=typed)
    person.sits_at_a_terminal = False
    return code


def bodies(canned: CannedDaemon) -> list[object]:
    return [asked.body for asked in canned.asked if asked.path == "/v1/purge"]


def test_forget_prints_what_went_and_place_by_place_what_became_of_it(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    assert person.give("forget", ID, "--yes") == 0
    assert bodies(canned) == [{"ids": [ID], "dry_run": True}, {"ids": [ID]}]
    assert person.out == (
        "erased: 1 memory and 1 derived from it (c0ffee01)\n"
        "  0000beef was derived from 5ca1ab1e too, which stay: derive it again from them\n"
        "  active again, since the memory that superseded it is erased: 5ca1ab1e\n"
        "  clean       db: rewritten: 20 to 10 bytes\n"
        "  removed     quarantine/5.jsonl: it held a word\n"
        "searched 9 files, 1.5 MB, for 12 traces: none is left\n"
        "  not changed /data/backups/one has a copy: delete it when you no longer need it "
        "(mnemo forget --everywhere rewrites such copies)\n"
        "  not searched  backups and exports in your own folders: delete those that have a copy\n"
    )


def test_forget_ends_with_1_where_something_is_still_there(person: CannedPerson, canned: CannedDaemon) -> None:
    place = SearchedPlace(place=f"memory {OTHER}", state="still there", detail="its version 1 says the same")
    left = EraseAnswer(purged=[ID], derived=[], places=[place], complete=False)
    canned.say("POST /v1/purge", left)
    assert person.give("forget", ID, "-y") == 1
    assert f"  still there memory {OTHER}: its version 1 says the same\n" in person.out
    assert "some are left, see above" in person.out


def test_forget_asks_before_it_does_anything(person: CannedPerson, canned: CannedDaemon) -> None:
    assert at_a_terminal(person, "forget", ID, typed="no\n") == 2
    assert "c0ffee01" in person.out
    assert "erase 1 memory and 1 derived from it for good, with every trace? [y/N] " in person.out
    assert bodies(canned) == [{"ids": [ID], "dry_run": True}]
    assert at_a_terminal(person, "forget", ID, typed="y\n") == 0
    assert bodies(canned)[-1] == {"ids": [ID]}
    assert person.give("forget", ID) == 2
    assert "confirm with --yes" in person.err


def test_a_dry_run_of_forget_asks_nothing_and_says_what_would_go(person: CannedPerson, canned: CannedDaemon) -> None:
    assert person.give("forget", ID, "--dry-run") == 0
    assert person.out == "would be erased: 1 memory and 1 derived from it (c0ffee01)\n"
    assert bodies(canned) == [{"ids": [ID], "dry_run": True}]


def test_forget_asks_for_what_quotes_it_and_for_the_copies_each_by_itself(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    quotation = Quotation(id=OTHER, version=2, excerpt="you told me that")
    plan = EraseAnswer(purged=[ID], derived=[], candidates=[quotation], backups=["/data/b"], dry_run=True)
    canned.answers["POST /v1/purge"] = lambda asked: plan if asked.body.get("dry_run") else REPORT
    assert at_a_terminal(person, "forget", ID, typed="y\ny\ny\n") == 0
    assert bodies(canned)[-1] == {"ids": [ID], "quoting": True, "everywhere": True}
    assert "0000beef you told me that\nerase also the memories that quote it (1 memory)? [y/N] " in person.out
    assert "may hold it /data/b\nrewrite these copies without it? [y/N] " in person.out
    assert at_a_terminal(person, "forget", ID, typed="y\nno\ny\n") == 0
    assert bodies(canned)[-1] == {"ids": [ID], "everywhere": True}
    assert at_a_terminal(person, "forget", ID, "--quoting", typed="y\nno\n") == 0
    assert bodies(canned)[-1] == {"ids": [ID], "quoting": True}
    assert person.give("forget", ID, "--yes") == 0  # nothing is asked where nobody can answer, and nothing more is done
    assert bodies(canned)[-1] == {"ids": [ID]}
    assert person.give("forget", ID, "--yes", "--quoting", "--everywhere") == 0
    assert bodies(canned)[-1] == {"ids": [ID], "quoting": True, "everywhere": True}
    assert person.give("forget", ID, "--dry-run") == 0
    assert "you told me that" in person.out
    assert "/data/b" in person.out


def test_forget_takes_what_passes_its_options_in_one_namespace(person: CannedPerson, canned: CannedDaemon) -> None:
    given = ["forget", "-t", "diary", "--state", "trashed", "--since", "1700000000000", "-n", "work", "-y"]
    assert person.give(*given) == 0
    wanted = {"namespace": "work", "states": ["trashed"], "tags": ["diary"], "since": 1_700_000_000_000}
    assert bodies(canned) == [{"filter": wanted, "dry_run": True}, {"ids": [ID]}]
    assert person.give("forget", "--all", "-n", "work", "--dry-run") == 0
    assert bodies(canned)[-1] == {"filter": {"namespace": "work"}, "dry_run": True}


def test_forget_without_a_name_or_with_two_kinds_of_names_is_wrong_usage(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    assert person.give("forget", "-y") == 2
    assert person.give("forget", ID, "--tag", "x", "-y") == 2
    assert canned.asked == []


def test_forget_says_when_nothing_passes(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/purge", EraseAnswer(purged=[], derived=[]))
    assert person.give("forget", "--tag", "x", "-y") == 3


def test_the_trash_is_emptied_once_a_person_says_so(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.answers["DELETE /v1/trash"] = lambda asked: {
        "dropped": 3, "bytes": 2100, "dry_run": "confirm" not in asked.query,
    }  # fmt: skip
    assert person.give("trash", "empty", "--dry-run") == 0
    assert person.out == "would be erased: 3 memories in the trash, 2.1 KB\n"
    assert person.give("trash", "empty") == 2
    assert at_a_terminal(person, "trash", "empty", typed="\n") == 2
    assert not any("confirm" in asked.query for asked in canned.asked)
    assert at_a_terminal(person, "trash", "empty", typed="yes\n") == 0
    assert canned.asked[-1].query == {"confirm": ["true"]}
    assert "erased: 3 memories in the trash, 2.1 KB" in person.out
    assert person.give("trash", "empty", "--yes", "--json") == 0
    assert json.loads(person.out) == {"dropped": 3, "bytes": 2100, "dry_run": False}


def test_an_empty_trash_is_said_to_be_empty(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("DELETE /v1/trash", {"dropped": 0, "bytes": 0, "dry_run": True})
    assert person.give("trash", "empty", "--yes") == 0
    assert (person.out, person.err) == ("", "the trash is empty\n")
