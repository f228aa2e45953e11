"""Made texts for benchmarks: people, places, things and days in sentences, from one seed, of a note's usual length."""

import random
from collections.abc import Iterator

PEOPLE = (
    "Ada Ben Chiara Deniz Emil Farida Goran Hana Ines Jonas Kaja Lior Mina Nils Oriol Petra Quentin Rosa Sami Tomas"
)
PLACES = (
    "Bergen Bonn Cusco Dakar Ghent Hobart Izmir Kiel Leeds Lima Malmo Nantes Oulu Porto Quito Riga Seoul Tunis Utrecht"
)
THINGS = (
    "boiler bicycle contract garden invoice kitchen laptop passport piano printer recipe roof router schedule server "
    "shed sofa tablet telescope ticket tyre umbrella violin washing-machine window workshop database backup newsletter "
    "budget thesis greenhouse ferry festival allergy dentist vaccine mortgage insurance translation antenna compiler"
)
VERBS = "fixed moved ordered sold cleaned measured painted returned renewed cancelled booked tested copied lost found"
WHY = (
    "because the old one leaked|so that the guests can use it|after a long talk with the landlord|before the audit|"
    "although it was expensive|while the snow lasted|for the second time this year|as agreed in the meeting|"
    "without telling anyone|with help from a neighbour|since the warranty had run out|to make room for the new one"
)
MONTHS = "January February March April May June July August September October November December"


def texts(count: int, seed: int = 1) -> Iterator[str]:
    """`count` different texts of about 35 words."""
    chance = random.Random(seed)
    people, places, things = PEOPLE.split(), PLACES.split(), THINGS.split()
    verbs, why, months = VERBS.split(), WHY.split("|"), MONTHS.split()
    for number in range(count):
        sentences = [
            f"{chance.choice(people)} {chance.choice(verbs)} the {chance.choice(things)} in {chance.choice(places)} "
            f"{chance.choice(why)}"
            for _ in range(3)
        ]
        day = f"{chance.randint(1, 28)} {chance.choice(months)} {chance.randint(2005, 2026)}"
        yield f"{sentences[0]} on {day}. {sentences[1]}. {sentences[2]}, reference {number * 7919 % 1_000_003}."


def questions(count: int, seed: int = 2) -> list[str]:
    """Questions of 6 to 9 words about what such texts tell."""
    chance = random.Random(seed)
    people, places, things, verbs = PEOPLE.split(), PLACES.split(), THINGS.split(), VERBS.split()
    return [
        f"when was the {chance.choice(things)} {chance.choice(verbs)} in {chance.choice(places)}, and who "
        f"asked {chance.choice(people)}"
        for _ in range(count)
    ]
