"""The ends of sentences, for every module that splits a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.text.languages import line_spans, sentence_ends, sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Anna is here. Ben is not.", ["Anna is here.", "Ben is not."]),
        ("i moved to oslo. my sister did not", ["i moved to oslo.", "my sister did not"]),
        ("Dr. Novak called at 5 p.m. yesterday. Good!", ["Dr. Novak called at 5 p.m. yesterday.", "Good!"]),
        ("We meet at 5 p.m. Bring cake.", ["We meet at 5 p.m.", "Bring cake."]),
        ("Is No. 5 free? I said no. No. Never.", ["Is No. 5 free?", "I said no.", "No.", "Never."]),
        ("Es ist z.B. am 6. Juni frei. Ja.", ["Es ist z.B. am 6. Juni frei.", "Ja."]),
        ("1. Wash it\n2. Dry it", ["1. Wash it", "2. Dry it"]),
        ("It opens at 11:00. December is free.", ["It opens at 11:00.", "December is free."]),
        ('"Really?" she asked. "Yes." He left.', ['"Really?" she asked.', '"Yes."', "He left."]),
        ("Well... maybe. Really?? i do", ["Well... maybe.", "Really??", "i do"]),
        ("Version 3.5 is out.Now", ["Version 3.5 is out.Now"]),
        ("Neuer Termin 4.12. um 9. Gut.", ["Neuer Termin 4.12. um 9.", "Gut."]),
        ("Mo 14.12. Feier. Danach frei.", ["Mo 14.12. Feier.", "Danach frei."]),
        ("Wir treffen uns am 4.12. Danach essen wir.", ["Wir treffen uns am 4.12.", "Danach essen wir."]),
        ("14.12. Feier. Danach frei.", ["14.12. Feier.", "Danach frei."]),
        ("Termin: 14.12. Zahnarzt\nMonday 3.12. Dentist", ["Termin: 14.12. Zahnarzt", "Monday 3.12. Dentist"]),
        ("Python 3.12. It is fine.", ["Python 3.12.", "It is fine."]),
        ("Friseur 12.12. 10 Uhr", ["Friseur 12.12. 10 Uhr"]),
        ("Frau Yilmaz, 3. Stock. Im 2. Hof.", ["Frau Yilmaz, 3. Stock.", "Im 2. Hof."]),
        ("We need 3. Then we go.", ["We need 3.", "Then we go."]),
        ("Our landlord Sr. Dias lives here. Ring.", ["Our landlord Sr. Dias lives here.", "Ring."]),
        ("我住在北京。他也是！真的？", ["我住在北京。", "他也是！", "真的？"]),
        ("", []),
    ],
)
def test_a_sentence_ends_behind_its_marks_and_not_behind_an_abbreviation_or_a_day(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


@given(st.text(st.sampled_from("aB1.!?。 \n\"'…)"), max_size=60))
def test_the_spans_are_the_whole_text_and_the_ends_are_in_order(text: str) -> None:
    assert "".join(text[start:end] for start, end in line_spans(text)) == text
    assert sentence_ends(text) == sorted(set(sentence_ends(text)))
