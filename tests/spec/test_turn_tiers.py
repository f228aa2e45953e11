"""Turns on their way through the tiers of a store: pushed out, filed, ended, erased, undone. SPEC 8"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mnemo_core.ingest.session_records import SessionScope, scope_of
from mnemo_core.ingest.write_plan import can_be_backfilled
from mnemo_core.retrieval.versions import TURN_TIER
from mnemo_core.sessions.tiers import IDLE_MS
from mnemo_daemon.history_names import BY_SESSIONS
from mnemo_daemon.sessions.session_service import pair_at
from mnemo_daemon.sessions.turn_tiers import TurnTiers
from mnemo_store.errors import WriteFailure
from mnemo_store.journal import dump
from mnemo_store.maintenance import compaction
from mnemo_store.record_texts import session_key
from mnemo_store.records import ConversationTurn, DropMemory, DropSession, Memory, Session, TurnPair
from mnemo_store.store import Store
from mnemo_store.tables import SESSIONS
from tests.support.conversation_services import KEY, SCOPE, ConversationServices, conversation_services_in
from tests.support.samples import quick_folder, write
from tests.support.store_services import PERSON

DAY = 86_400_000


@pytest.fixture
def talk() -> Iterator[ConversationServices]:
    with quick_folder() as folder, conversation_services_in(folder) as talk:
        yield talk


# The ring


def test_T1_the_twenty_first_turn_pushes_the_first_one_out_and_it_becomes_recent(talk: ConversationServices) -> None:
    talk.say(20)
    talk.push_out()
    assert talk.places() == {"ring": 20}
    talk.say()
    talk.push_out()
    assert (talk.place(talk.said[0]), talk.places()) == ("recent", {"ring": 20, "recent": 1})
    assert [item.memory.id for item in talk.sessions.ring(SCOPE)] == talk.said[1:]
    assert [turn.id for turn in talk.sessions.recent(SCOPE)] == talk.said[:1]


def test_T1_a_turn_that_a_person_found_unimportant_is_archived_when_it_is_pushed_out(
    talk: ConversationServices,
) -> None:
    first, *_ = talk.say(20)
    talk.services.edit(first, importance=0.3, importance_source="user")
    talk.say()
    talk.push_out()
    assert talk.place(first) == "archived"
    assert talk.services.memory(first).importance == 0.3


def test_T1_sessions_users_and_namespaces_have_rings_of_their_own(talk: ConversationServices) -> None:
    talk.say(15)
    talk.say(15, session="other")
    talk.push_out()
    assert talk.places() == {"ring": 30}


def test_T14_a_recalled_memory_enters_the_ring_once_and_is_not_written(talk: ConversationServices) -> None:
    ids = talk.say(20)
    note = talk.services.add("The ferry leaves at seven.")
    before = talk.services.store.seq
    talk.sessions.promote(SCOPE, [note, note, ids[-1]])
    talk.sessions.promote(SCOPE, [note])
    ring = talk.sessions.ring(SCOPE)
    assert [(item.memory.id, item.is_promoted) for item in ring[-2:]] == [(ids[-1], False), (note, True)]
    assert talk.services.store.seq == before
    talk.push_out()
    assert talk.places() == {"ring": 19, "recent": 1}
    assert talk.services.memory(note).version == 1


def test_T14_a_recalled_pair_enters_the_ring_as_one_text_and_an_erased_one_leaves_it(
    talk: ConversationServices,
) -> None:
    asked, answer = talk.say(2)
    talk.tiers.end(SCOPE)
    other = talk.say(1, session="talk")
    talk.sessions.promote(SCOPE, [asked])
    assert [item.text for item in talk.sessions.ring(SCOPE)] == [
        "Turn 2 of the talk.", "User: Turn 0 of the talk. → Agent: Turn 1 of the talk.",
    ]  # fmt: skip
    write(talk.services.store, DropMemory(id=asked))
    assert [item.memory.id for item in talk.sessions.ring(SCOPE)] == other
    assert talk.place(answer) == "registry"


# The registry


def test_T6_the_sweep_files_cold_turns_of_a_session_that_goes_on(talk: ConversationServices) -> None:
    talk.say(30)
    talk.push_out()
    assert talk.places() == {"ring": 20, "recent": 10}
    talk.services.at += 11 * DAY
    talk.say()
    talk.sweep()
    assert talk.places() == {"ring": 21, "recent": 10}
    talk.services.at += DAY
    talk.say()
    talk.sweep()
    assert talk.places() == {"ring": 22, "registry": 10}


def test_T6_a_young_recent_turn_stays_and_consolidate_files_it_at_once(talk: ConversationServices) -> None:
    talk.say(31)
    talk.push_out()
    talk.sweep()
    assert talk.places() == {"ring": 20, "recent": 11}
    assert talk.tiers.consolidate(SCOPE) == 5
    # The eleventh turn waits: its answer is in the ring.
    assert talk.places() == {"ring": 20, "recent": 1, "registry": 10}
    assert [(pair.id, pair.reply) for pair in talk.pairs()] == [tuple(talk.said[at : at + 2]) for at in range(0, 10, 2)]


def test_T15_recent_turns_beyond_forty_are_filed_and_none_is_lost(talk: ConversationServices) -> None:
    talk.say(61)
    talk.push_out()
    assert talk.places() == {"ring": 20, "recent": 39, "registry": 2}
    assert talk.place(talk.said[0]) == talk.place(talk.said[1]) == "registry"


def test_T15_an_important_turn_stays_recent_while_younger_ones_are_filed(talk: ConversationServices) -> None:
    first, *_ = talk.say(60)
    talk.services.edit(first, importance=0.9)
    talk.say(2)
    talk.push_out()
    assert talk.place(first) == "recent"
    assert [talk.place(each) for each in talk.said[2:4]] == ["registry", "registry"]


def test_T7_the_end_of_a_session_files_all_of_its_turns_in_pairs(talk: ConversationServices) -> None:
    talk.say(25)
    talk.push_out()
    assert talk.tiers.end(SCOPE) == 13
    assert talk.places() == {"registry": 25}
    session = talk.session()
    assert session is not None
    assert (session.ended_at, session.turns) == (talk.services.at, 25)
    lone = talk.said[-1]
    assert talk.pairs()[-1] == TurnPair(id=lone, reply=lone, session_id="talk", at=talk.services.at)
    assert talk.tiers.end(SCOPE) == 0


def test_a_session_ends_by_itself_after_half_an_hour_and_goes_on_with_the_next_turn(talk: ConversationServices) -> None:
    talk.say(4)
    talk.services.at += IDLE_MS - 1
    talk.sweep()
    assert talk.places() == {"ring": 4}
    talk.services.at += 1
    talk.sweep()
    assert talk.places() == {"registry": 4}
    talk.say(2)
    session = talk.session()
    assert session is not None
    assert (session.ended_at, session.last_at, session.turns) == (0, talk.services.at, 6)
    talk.sweep()
    assert talk.places() == {"registry": 4, "ring": 2}


def test_a_session_that_a_turn_came_to_meanwhile_does_not_end_by_itself(talk: ConversationServices) -> None:
    talk.say(2)
    assert talk.tiers.end(SCOPE, only_idle=True) == 0
    assert talk.places() == {"ring": 2}


def test_T5_a_turn_that_something_replaced_is_not_among_the_recent(talk: ConversationServices) -> None:
    first, *_ = talk.say(22)
    talk.push_out()
    talk.services.add("Something newer.", supersedes=(first,))
    assert [turn.id for turn in talk.sessions.recent(SCOPE)] == talk.said[1:2]


def test_a_session_that_was_marked_as_ended_before_a_crash_is_filed_by_the_next_sweep(
    talk: ConversationServices,
) -> None:
    talk.say(4)
    session = talk.session()
    assert session is not None
    write(talk.services.store, Session(id=KEY, session_id="talk", started_at=1, last_at=session.last_at, ended_at=9))
    talk.sweep()
    assert talk.places() == {"registry": 4}


def test_the_registry_beyond_its_cap_archives_the_oldest_pairs(talk: ConversationServices) -> None:
    talk.tiers = TurnTiers(talk.services.store, talk.services.views, talk.sessions, registry_max=3)
    talk.say(10)
    talk.tiers.end(SCOPE)
    talk.sweep()
    assert [talk.place(each) for each in talk.said] == ["archived"] * 4 + ["registry"] * 6
    assert [pair.is_archived for pair in talk.pairs()] == [True, True, False, False, False]
    assert "Turn 0 of the talk." in talk.services.recalled("Turn 0 of the talk")


# What an erasure or an import leaves


def test_a_turn_whose_partner_was_erased_is_paired_again_alone(talk: ConversationServices) -> None:
    asked, answer, *_ = talk.say(4)
    talk.tiers.end(SCOPE)
    talk.sweep()
    write(talk.services.store, DropMemory(id=asked))
    assert len(talk.pairs()) == 1
    talk.sweep()
    with talk.services.store.snapshot() as snapshot:
        assert pair_at(snapshot, answer) == TurnPair(
            id=answer, reply=answer, session_id="talk", at=talk.services.memory(answer).event_at
        )


class StoreThatFailsOnce:
    """A store that refuses the next write if asked to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, *arguments: Any, **options: Any) -> Any:
        if self.fails:
            self.fails = False
            raise WriteFailure("as scripted")
        return self._store.transact(*arguments, **options)


def test_a_sweep_that_failed_is_made_again_as_a_whole(talk: ConversationServices) -> None:
    store = StoreThatFailsOnce(talk.services.store)
    talk.tiers = TurnTiers(cast(Store, store), talk.services.views, talk.sessions)
    asked, answer = talk.say(2)
    talk.tiers.end(SCOPE)
    talk.sweep()
    write(talk.services.store, DropMemory(id=asked))
    store.fails = True
    with pytest.raises(WriteFailure):
        talk.sweep()
    talk.sweep()
    assert [(pair.id, pair.reply) for pair in talk.pairs()] == [(answer, answer)]


def test_a_session_without_a_turn_has_no_record(talk: ConversationServices) -> None:
    ids = talk.say(2)
    talk.services.trash(*ids)
    talk.sweep()
    assert talk.session() is not None, "its turns may be restored"
    write(talk.services.store, *(DropMemory(id=each) for each in ids))
    talk.sweep()
    assert talk.session() is None


def test_a_sweep_drops_no_session_of_a_store_that_was_replaced_before_its_turns_are_indexed(
    talk: ConversationServices, tmp_path: Path
) -> None:
    talk.say(2)
    lines = list(dump.write(talk.services.store.snapshot))
    with conversation_services_in(tmp_path / "other") as other:
        store = other.services.store
        store.run_exclusively(lambda supervisor: compaction.install_dump(supervisor, dump.read(lines))).result()
        assert other.services.views.state == "stale"
        other.sweep()
        assert other.session() == talk.session() is not None


def test_turns_that_came_without_the_record_of_their_session_get_it(talk: ConversationServices) -> None:
    turn = ConversationTurn(role="user", tier="registry")
    memory = talk.services.memory(talk.services.add("From before.", session_id="old", turn=turn))
    old = SessionScope("default", "local", "old")
    with talk.services.store.snapshot() as snapshot:
        row = snapshot.get(SESSIONS, session_key(*old))
    assert row is not None
    write(talk.services.store, DropSession(id=row.id))
    talk.sweep()
    with talk.services.store.snapshot() as snapshot:
        again = snapshot.get(SESSIONS, session_key(*scope_of(memory)))
    assert again == Session(id=row.id, session_id="old", started_at=1000, last_at=1000, turns=1)


# History


def test_the_tiers_are_in_no_diff_and_no_undo(talk: ConversationServices) -> None:
    talk.say(20)
    since = talk.services.store.seq
    *_, last = talk.say(2)
    talk.push_out()
    talk.tiers.end(SCOPE)
    span = talk.services.history.span(since, None)
    rows, _, _ = talk.services.history.differences(span, (), "local", PERSON, 500, "")
    assert [row.id for row in rows] == talk.said[:-3:-1], "the two that came in, and none that moved"
    assert talk.services.undo().ids == [last]
    assert talk.place(last) == "trashed"
    with talk.services.store.snapshot() as snapshot:
        entries = snapshot.entries(0)
    assert {entry.by for _, entry in entries if entry.what == TURN_TIER} == {BY_SESSIONS.name}


def test_undo_of_an_edit_leaves_the_turn_in_the_tier_where_it_is_by_then(talk: ConversationServices) -> None:
    first, *_ = talk.say(20)
    seq = talk.services.edit(first, content="Something else.")
    talk.say()
    talk.push_out()
    talk.services.undo(seq)
    assert (talk.services.memory(first).content, talk.place(first)) == ("Turn 0 of the talk.", "recent")


def test_a_turn_that_moved_before_its_vector_was_there_is_still_compared_with_others(
    talk: ConversationServices,
) -> None:
    first, second, *_ = talk.say(22)
    talk.services.edit(second, tags=["boat"])
    talk.push_out()
    assert can_be_backfilled(talk.services.memory(first))
    assert not can_be_backfilled(talk.services.memory(second)), "somebody changed it"


def test_a_turn_that_moves_is_as_old_as_before(talk: ConversationServices) -> None:
    before: Memory = talk.services.memory(talk.say(21)[0])
    talk.push_out()
    after = talk.services.memory(before.id)
    assert (after.version, after.modified_at, after.event_at) == (2, before.modified_at, before.event_at)
