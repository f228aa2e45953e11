"""Right answers to the probes of the tasks whose fallback does not give them itself, by the number of the probe."""

from typing import Any

RIGHT_ANSWERS: dict[str, dict[int, Any]] = {
    "answer": {
        1: {"sentences": [{"text": "Anna is a keeper at the zoo.", "sources": [1]}]},
        2: {"sentences": [{"text": "Otto goes to the office by bicycle.", "sources": [2]}]},
        3: {"sentences": [{"text": "The spare key is with Mrs. Lind.", "sources": [3]}]},
        4: {"sentences": [{"text": "Die Fahrkarte hat 59 Euro gekostet.", "sources": [2]}]},
        5: {"sentences": []},
    },
    "summarize": {
        1: {"summary": "The new panda house of the zoo in Berlin opens on 5 June and cost 10 million euros."},
        2: {
            "summary": "The deployment of the shop failed, because port 8080 was taken by the old proxy, until Mira "
            "stopped it."
        },
        3: {"summary": "The meeting with Dr. Weber about the new laboratory was moved to Thursday at 14:30."},
        4: {"summary": "Wir fahren am 3. Mai nach Köln zu Ines, und die Fahrkarten hat Otto für 59 Euro gekauft."},
    },
}
