"""The access table: whom it grants which right, with which trust, and which entries are refused. SPEC 2.1, 13"""

import os
from pathlib import Path

import pytest

from mnemo_client.protocol.operations import RIGHTS, Right
from mnemo_daemon.server.admission.access_table import (
    OWNER_GRANT,
    AccessEntry,
    AccessError,
    AccessTable,
    Grant,
)
from mnemo_daemon.server.sockets import Peer

OWNER, BEN, EVE = 1000, 1001, 1002
SHELL = os.path.realpath("/bin/sh")


def table(*entries: AccessEntry, owner: int = OWNER) -> AccessTable:
    return AccessTable(entries, owner, {"anna": OWNER, "ben": BEN}.__getitem__)


def test_without_entries_the_owner_may_do_everything_and_nobody_else_anything() -> None:
    assert table().grant_of(Peer(OWNER)) == OWNER_GRANT == Grant("admin", "user")
    for uid in (0, BEN, EVE, 65534):
        assert table().grant_of(Peer(uid)) is None


def test_an_entry_grants_another_user_its_right_and_at_most_the_trust_of_an_agent() -> None:
    access = table(AccessEntry(user="ben", right="read"), AccessEntry(user=EVE, right="admin", trust="tool"))
    assert access.grant_of(Peer(BEN)) == Grant("read", "agent", name="user-1001", is_foreign=True)
    assert access.grant_of(Peer(EVE)) == Grant("admin", "tool", name="user-1002", is_foreign=True)
    assert access.grant_of(Peer(OWNER)) == OWNER_GRANT


def test_the_first_entry_that_fits_counts() -> None:
    access = table(
        AccessEntry(user=OWNER, right="read", program="/bin/sh"),
        AccessEntry(user=OWNER, right="write", program="/bin/sh"),
    )
    assert access.grant_of(Peer(OWNER, 7, SHELL)) == Grant("read", "agent", name=Path(SHELL).name)
    assert access.grant_of(Peer(OWNER, 7, "/bin/another")) == OWNER_GRANT


def test_a_program_of_another_user_whose_path_is_not_known_has_no_right() -> None:
    access = table(AccessEntry(user=BEN, right="write", program="/bin/sh"), owner=0)
    assert access.grant_of(Peer(BEN, 7, SHELL)) is not None
    assert access.grant_of(Peer(BEN, 7, "")) is None
    assert access.grant_of(Peer(BEN, 7, "/bin/another")) is None


def test_only_a_user_with_an_entry_for_a_program_has_its_program_looked_up() -> None:
    access = table(AccessEntry(user=BEN, right="write"), AccessEntry(user=OWNER, right="read", program="/bin/sh"))
    assert [access.names_programs_of(uid) for uid in (OWNER, BEN, EVE)] == [True, False, False]


@pytest.mark.parametrize("right", RIGHTS)
def test_each_right_includes_those_before_it(right: Right) -> None:
    grant = Grant(right, "agent")
    assert [grant.allows(needed) for needed in RIGHTS] == [
        RIGHTS.index(needed) <= RIGHTS.index(right) for needed in RIGHTS
    ]
    assert RIGHTS == ("read", "write", "admin")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (AccessEntry(user="bem", right="read"), "access.allow[0].user: this machine has no user `bem`"),
        (AccessEntry(user="anna", right="read"), "access.allow[0].user: the owner of the daemon has every right; na"),
        (AccessEntry(user=BEN, right="write", trust="user"), "access.allow[0].trust: only the owner of the daemon has"),
        (AccessEntry(user=BEN, right="write", program="/bin/sh"), "access.allow[0].program: the system shows you the"),
        (AccessEntry(user=OWNER, right="write", program="sh"), "access.allow[0].program: sh is not the absolute path"),
        (AccessEntry(user=OWNER, right="write", program="/no/sh"), "access.allow[0].program: /no/sh is not the absolu"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_right_is_refused_by_its_place(entry: AccessEntry, said: str) -> None:
    with pytest.raises(AccessError) as refused:
        table(entry)
    assert str(refused.value).startswith(said)


def test_entries_are_checked_for_the_user_who_runs_the_daemon() -> None:
    with pytest.raises(AccessError, match="the owner of the daemon has every right"):
        AccessTable([AccessEntry(user=os.geteuid(), right="read")])
    AccessTable([AccessEntry(user=os.geteuid() + 1, right="read")])
