"""The key of a group: its passphrase, its pairing code, its replacement, and what somebody else does to its files."""

import json
from pathlib import Path

import pytest

from mnemo_daemon.sync.cipher import PassphraseCost, SyncError, UnauthenticData
from mnemo_daemon.sync.group_keys import (
    BadPairingCode,
    GroupExists,
    GroupKey,
    ReplacedKey,
    UnreadableGroup,
    WrongPassphrase,
    check_key,
    create_group,
    open_group,
    open_with_code,
    pairing_code,
    replace_key,
)

CHEAP = PassphraseCost(passes=1, memory_bytes=8192)
WORDS = "correct horse"


def changed(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_group_is_opened_by_its_passphrase_and_by_no_other(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    assert open_group(tmp_path, WORDS) == key
    assert open_group(tmp_path, WORDS + "\n") == key
    with pytest.raises(WrongPassphrase, match="passphrase is not that"):
        open_group(tmp_path, "correct house")
    assert (tmp_path / "group.json").stat().st_mode & 0o777 == 0o600


def test_a_passphrase_is_the_same_however_its_characters_are_composed(tmp_path: Path) -> None:
    key = create_group(tmp_path, "Stra\u00dfe zur M\u00fchle", cost=CHEAP)
    assert open_group(tmp_path, "Stra\u00dfe zur Mu\u0308hle") == key


def test_neither_key_nor_passphrase_can_be_read_in_the_folder_or_in_a_log(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    text = (tmp_path / "group.json").read_text()
    assert key.keys[0].hex() not in text
    assert WORDS not in text
    assert key.keys[0].hex() not in repr(key)
    assert repr(key.keys[0]) not in repr(key)


def test_the_default_cost_is_256_mib_and_is_written_into_the_file(tmp_path: Path) -> None:
    create_group(tmp_path, WORDS)
    derivation = json.loads((tmp_path / "group.json").read_text())["kdf"]
    assert (derivation["name"], derivation["passes"], derivation["memory_bytes"]) == ("argon2id", 3, 256 << 20)


def test_a_second_group_in_a_folder_and_a_short_passphrase_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SyncError, match="at least 8 characters"):
        create_group(tmp_path, "seven77", cost=CHEAP)
    assert list(tmp_path.iterdir()) == []
    create_group(tmp_path, WORDS, cost=CHEAP)
    with pytest.raises(GroupExists, match=r"group\.json exists"):
        create_group(tmp_path, WORDS, cost=CHEAP)


def test_the_key_survives_being_stored_as_bytes(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    newer = replace_key(tmp_path, key, "another horse", cost=CHEAP)
    assert GroupKey.from_bytes(key.to_bytes()) == key
    assert GroupKey.from_bytes(newer.to_bytes()) == newer


def test_a_pairing_code_carries_the_key_however_it_is_typed(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    code = pairing_code(key)
    assert open_with_code(tmp_path, code) == key
    assert open_with_code(tmp_path, code.lower().replace("-", " ").replace("0", "o").replace("1", "l")) == key


def test_a_pairing_code_of_another_group_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    create_group(tmp_path / "a", WORDS, cost=CHEAP)
    other = create_group(tmp_path / "b", WORDS, cost=CHEAP)
    with pytest.raises(BadPairingCode, match="another group"):
        open_with_code(tmp_path / "a", pairing_code(other))


def test_a_replaced_key_opens_what_is_older_and_is_not_known_to_who_has_the_old_one(tmp_path: Path) -> None:
    first = create_group(tmp_path, WORDS, cost=CHEAP)
    second = replace_key(tmp_path, first, "another horse", cost=CHEAP)
    third = replace_key(tmp_path, second, "a third horse", cost=CHEAP)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["group.2.json", "group.3.json", "group.json"]
    assert third.keys[:2] == second.keys
    assert second.keys[:1] == first.keys
    assert len(set(third.keys)) == third.generation == 3
    assert open_group(tmp_path, "a third horse") == third
    assert open_with_code(tmp_path, pairing_code(third)) == third
    with pytest.raises(WrongPassphrase):
        open_group(tmp_path, WORDS)
    with pytest.raises(ReplacedKey, match="make a new code"):
        open_with_code(tmp_path, pairing_code(first))
    for old in (first, second):
        with pytest.raises(ReplacedKey, match="was replaced"):
            check_key(tmp_path, old)
        with pytest.raises(ReplacedKey):
            replace_key(tmp_path, old, "yet another", cost=CHEAP)
    assert check_key(tmp_path, third) == ""
    with pytest.raises(UnauthenticData, match="key 3 of the group; this device knows 2"):
        second.subkey("segments", 3)


def test_a_group_file_that_somebody_else_put_there_replaces_no_key(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    (tmp_path / "other").mkdir()
    stranger = create_group(tmp_path / "other", WORDS, cost=CHEAP)
    replace_key(tmp_path / "other", stranger, WORDS, cost=CHEAP)
    forged = tmp_path / "group.2.json"
    forged.write_bytes((tmp_path / "other" / "group.2.json").read_bytes())
    assert check_key(tmp_path, key) == "group.2.json is of another group"
    changed(forged, group=key.group.hex())
    assert check_key(tmp_path, key) == "group.2.json was not written by this group"
    changed(forged, announced=[])
    assert check_key(tmp_path, key) == "group.2.json was not written by this group"
    forged.write_text('{"format": 1')
    assert "group.2.json is damaged or not yet complete" in check_key(tmp_path, key)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"format": 2}, "a newer mnemod wrote it"),
        ({"generation": 2}, "none that a group is made with"),
        ({"key": "no hex"}, "damaged"),
        ({"kdf": {"name": "argon2id", "passes": 1, "memory_bytes": 1 << 40, "salt": "00" * 16}}, "none that a group"),
        ({"kdf": {"name": "argon2id", "passes": 10**9, "memory_bytes": 8192, "salt": "00" * 16}}, "none that a group"),
        ({"kdf": {"name": "md5", "passes": 1, "memory_bytes": 8192, "salt": "00" * 16}}, "none that a group"),
        ({"kdf": {"name": "argon2id", "passes": 1, "memory_bytes": 8192, "salt": "00"}}, "none that a group"),
    ],
)
def test_a_group_file_with_impossible_values_is_refused_before_a_key_is_derived(
    tmp_path: Path, values: dict[str, object], said: str
) -> None:
    create_group(tmp_path, WORDS, cost=CHEAP)
    changed(tmp_path / "group.json", **values)
    with pytest.raises(UnreadableGroup, match=said):
        open_group(tmp_path, WORDS)


def test_a_folder_without_a_group_and_links_in_its_place_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableGroup, match=r"has no group\.json: wait"):
        open_group(tmp_path, WORDS)
    (tmp_path / "elsewhere").mkdir()
    create_group(tmp_path / "elsewhere", WORDS, cost=CHEAP)
    (tmp_path / "group.json").symlink_to(tmp_path / "elsewhere" / "group.json")
    with pytest.raises(SyncError, match=r"group\.json is a symbolic link"):
        open_group(tmp_path, WORDS)


def test_conflict_copies_of_carriers_are_no_group_files(tmp_path: Path) -> None:
    key = create_group(tmp_path, WORDS, cost=CHEAP)
    content = (tmp_path / "group.json").read_bytes()
    for name in ("group.sync-conflict-20260101-120000-ABCDEFG.json", ".syncthing.group.2.json.tmp", "group.2.json~",
                 "group.1.json", "group.02.json", "group.2 (1).json"):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    assert open_group(tmp_path, WORDS) == key
    assert check_key(tmp_path, key) == ""
