"""Two real daemons, each with its own copy of the shared folder, which something else carries. SPEC 21"""

from pathlib import Path

import pytest

from tests.support.device_folders import Carrier, by_git, by_syncthing, copying, share_change_and_forget, two_devices

EACH = 110  # memories on each side; `bench_sync --carried` takes thousands


@pytest.mark.parametrize("carrier", [copying, by_git, by_syncthing])
def test_two_daemons_have_the_same_memories_and_prove_what_was_forgotten(short_folder: Path, carrier: Carrier) -> None:
    with two_devices(short_folder) as pair:
        share_change_and_forget(pair, carrier, EACH)
