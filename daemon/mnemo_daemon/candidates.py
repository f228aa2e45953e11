"""From what the channels found to what the rankers see: a row a candidate, from the columns. SPEC 7.3"""

from mnemo_core.ranking import Candidates
from mnemo_daemon.channels import Channels, Scene


def candidates_of(scene: Scene, channels: Channels) -> Candidates:
    numbers = channels.numbers
    return Candidates(
        channels.words,
        channels.sims,
        scene.column("importance", numbers),
        scene.column("event_at", numbers),
        scene.column("id_high", numbers),
        scene.column("id_low", numbers),
    )
