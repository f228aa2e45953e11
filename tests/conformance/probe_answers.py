"""Right answers to the probes of the tasks that answer in words, by the number of the probe."""

from typing import Any

MERGED = {
    1: {"text": "Anna works at the zoo in Berlin and feeds the pandas there."},
    2: {"text": "The standup is at 9:30 in room Kepler on Mondays."},
    3: {"text": "The roof was repaired by Mr. Hansen for 900 euros in May."},
    4: {"text": "The server runs on port 8080. It was set up by Mira. It stands in Oslo."},
}
RIGHT_ANSWERS: dict[str, dict[int, Any]] = {
    "answer": {
        1: {"sentences": [{"text": "Anna is a keeper at the zoo.", "sources": [1]}]},
        2: {"sentences": [{"text": "Otto goes to the office by bicycle.", "sources": [2]}]},
        3: {"sentences": [{"text": "The spare key is with Mrs. Lind.", "sources": [3]}]},
        4: {"sentences": [{"text": "Die Fahrkarte hat 59 Euro gekostet.", "sources": [2]}]},
        5: {"sentences": []},
    },
    "expand": {
        1: {
            "phrasings": [
                "location of my vehicle",
                "street with my automobile",
                "which garage holds it",
                "place of the van",
            ]
        },
        2: {"phrasings": ["the physician who treats me", "name of my practitioner", "medical office", "family clinic"]},
        3: {
            "phrasings": [
                "time at which the movie begins",
                "the cinema programme",
                "hour of the show",
                "beginning of the screening",
            ]
        },
        4: {
            "phrasings": [
                "monthly rent of the apartment",
                "price of the home",
                "what we pay the landlord",
                "housing costs",
            ]
        },
        5: {
            "phrasings": [
                "instructions to fix a bike",
                "mend a broken wheel",
                "change the chain",
                "replace a flat tyre",
            ]
        },
    },
    "extract": {
        1: {"statements": ["Anna lives in Lisbon.", "Anna works at a bank."]},
        4: {"statements": ["Tom does not eat meat.", "Tom likes fish."]},
        5: {"statements": ["The museum opens at nine.", "Laura is the director.", "Laura studied in Rome."]},
    },
    "fact_extract": {4: {"subject": "Tom", "predicate": "repaired", "object": "the old clock"}},
    "insert_merge": MERGED,
    "merge": MERGED,
    "summarize": {
        1: {"summary": "The zoo in Berlin opens its new panda house on 5 June. The panda house cost 10 million euros."},
        2: {"summary": "The deployment failed, because the old proxy used port 8080. Mira stopped the old proxy."},
        3: {"summary": "The meeting with Dr. Weber takes place on Thursday at 14:30. Ines brings the drawings."},
        4: {"summary": "Am 3. Mai fahren wir mit dem Zug nach Köln. Otto hat die Fahrkarten für 59 Euro gekauft."},
    },
}
