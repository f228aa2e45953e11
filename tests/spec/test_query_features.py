"""The kind of answer that a question asks for, question by question. SPEC 7.3"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.text.query_features import (
    PROMPT_CHARS_MAX,
    QueryFeatures,
    analyze_query,
    asked_role,
    asks_for_list,
    named_months,
    named_years,
    question_of_prompt,
)

# For each question, all that it asks for.
QUESTIONS: dict[str, str] = {
    "When did Anna move?": "when",
    "What year was the boat built?": "when what",
    "How long ago did they meet?": "when",
    "Where does Jonas live?": "where",
    "Which city is the shop in?": "where which",
    "Who's the teacher?": "who",
    "Whose boat is it?": "who",
    "What does Jonas do?": "what",
    "what\u2019s on the shelf": "what",
    "Which of the two is older?": "which",
    "How many cats has she?": "how_many",
    "How often do they sail?": "how_many",
    "What did the boat cost?": "what how_many",
    "What is the number of the rooms?": "what how_many",
    "Number of the rooms?": "how_many",
    "What is the phone number of the shop?": "what",
    "The price of the boat?": "how_many",
    "How long did it take?": "how_long",
    "Why did he leave?": "why",
    "How come he left?": "why",
    "What inspired her?": "what why",
    "What is the reason?": "what why",
    "How does the engine work?": "how",
    "Is the boat red?": "yes_no",
    "Didn't she leave?": "yes_no",
    "Can you say when it opens?": "when yes_no",
    "was she there": "yes_no",
    "boat repair harbour": "is_keywords",
    "the server": "is_keywords",
    "": "is_keywords",
    "The boat?": "",
    "The whenever of Nowhere?": "",
    "my boat": "is_keywords first_person",
    "us and them": "is_keywords first_person",
    "US economy": "is_keywords",
    "Where do we live?": "where first_person",
    "What would she likely choose?": "what is_speculative",
    "Might it rain?": "yes_no is_speculative",
    "Could Anna be at home?": "yes_no is_speculative",
    "What book did Anna read?": "what wants_title",
    "What is the dog called?": "what wants_title",
    "Which band played?": "which wants_title",
    "Is it a facebook page?": "yes_no",
    # German
    "Wann zieht Anna um?": "when",
    "Wo wohnt Jonas?": "where",
    "Wer hat das Boot?": "who",
    "Was macht der Hund?": "what",
    "Welches Jahr war das?": "when which",
    "Wie viele Katzen gibt es?": "how_many",
    "Wie alt ist er?": "how_many",
    "Wie lange dauert es?": "how_long",
    "Warum ging er?": "why",
    "Wie geht das?": "how",
    "Hat sie ein Boot?": "yes_no",
    "Wo ist mein Schlüssel?": "where first_person",
    "Wie heißt das Buch?": "how wants_title",
    # French
    "Quand part-elle ?": "when",
    "Où habite Jonas ?": "where",
    "Qui a le bateau ?": "who",
    "Que fait-il ?": "what",
    "Quel bateau est rouge ?": "which",
    "Combien de chats ?": "how_many",
    "Combien de temps faut-il ?": "how_long",
    "Pourquoi part-il ?": "why",
    "Comment ça marche ?": "how",
    "Est-ce qu'il pleut ?": "yes_no",
    "Où sont mes clés ?": "where first_person",
    # Chinese
    "他什么时候来？": "when",
    "她在哪里？": "where",
    "谁来了？": "who",
    "他做什么？": "what",
    "多少钱？": "how_many",
    "几个孩子？": "how_many",
    "他住了多久？": "how_long",
    "为什么不来？": "why",
    "怎么去？": "how",
    "他来吗": "yes_no",
    "我的船在哪儿？": "where first_person",
    "他可能来吗？": "yes_no is_speculative",
    "船 修理": "is_keywords",
    # Japanese
    "いつ来ますか": "when yes_no",
    "何時に開く？": "when",
    "どこに住む？": "where",
    "誰が来た？": "who",
    "何を食べた？": "what",
    "どの船？": "which",
    "いくつある？": "how_many",
    "いくら？": "how_many",
    "どのくらいかかる？": "how_long",
    "なぜ？": "why",
    "どうして？": "why",
    "どうやって行く？": "how",
    "彼は来ましたか？": "yes_no",
    "私の本の名前？": "first_person wants_title",
}


@pytest.mark.parametrize(("query", "asks"), QUESTIONS.items())
def test_a_question_asks_for_this_and_for_nothing_else(query: str, asks: str) -> None:
    shape = analyze_query(query)
    assert {name for name, holds in shape._asdict().items() if holds} == set(asks.split())


@given(st.text() | st.text(st.sampled_from("whatn' I?？何時哪"), max_size=30))
def test_any_text_is_a_question_or_keywords(query: str) -> None:
    shape = analyze_query(query)
    assert not (shape.is_keywords and (shape.what or shape.yes_no or "?" in query or "？" in query))


def test_everything_that_can_be_asked_for_is_shown() -> None:
    assert {name for asks in QUESTIONS.values() for name in asks.split()} == set(QueryFeatures._fields)


@pytest.mark.parametrize(
    ("query", "months", "years"),
    [
        ("Where did we go in March 2025?", {3}, {2025}),
        ("what may I do in december or January", {1, 12}, set()),
        ("what was it in May 1999", {5}, {1999}),
        ("was war im März", {3}, set()),
        ("que faisait-on en mars", {3}, set()),
        ("who flies to Mars", set(), set()),
        ("part 120250 of the set", set(), set()),
        ("when is the dentist", set(), set()),
        ("what did we do in \u017feptember 2024 and apr\u0130l", {9, 4}, {2024}),
    ],
)
def test_months_and_years_are_read_off_a_question(query: str, months: set[int], years: set[int]) -> None:
    assert set(named_months(query)) == months
    assert set(named_years(query)) == years


@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("What is my sister called?", "user"),
        ("where did I park", "user"),
        ("Which of us booked the hall?", None),
        ("What did you suggest for my knee?", "agent"),
        ("your advice about the landlord", "agent"),
        ("Do you remember where I parked?", "user"),
        ("Can you tell me what you suggested for the boiler?", "agent"),
        ("What did the two flats cost that I asked you about?", "user"),
        ("I\u2019ve told you the name of my dentist, what is it?", "user"),
        ("What is the user's daughter called?", None),
        ("When does the ferry leave?", None),
        ("Wie heißt meine Schwester?", "user"),
        ("Weißt du noch, wo ich geparkt habe?", "user"),
        ("Was hast du mir geraten?", "agent"),
        ("Où ai-je garé ma voiture, moi ?", "user"),
        ("Qu'est-ce que tu m'as conseillé ?", "agent"),
        ("我的牙医叫什么？", "user"),
        ("你建议我做什么？", "agent"),
    ],
)
def test_statements_can_be_selected_by_person_or_agent(query: str, role: str | None) -> None:
    assert asked_role(query) == role


@pytest.mark.parametrize(
    "query",
    [
        "What books has Anna read?",
        "which birds did the neighbours keep",
        "Which animals live on the farm?",
        "Which of Anna\u2019s cousins have moved away?",
        "What kinds of bread does he bake?",
        "In what ways did Jonas help with the move?",
        "On which occasions was the mayor late?",
        "Where has Jonas been?",
        "What has she painted?",
        "Who all came to the party?",
        "How many times did the boiler fail?",
        "How often has the train been late?",
        "How many pets does Anna have?",
        "Who are the members of the choir?",
        "What are the names of the dogs?",
        "Do both sisters play chess?",
        "What do you know about the boathouse?",
        "How did the garden change over the year?",
        "How has her Finnish progressed?",
        "What became of the teacher's glasses?",
        "How did he learn it step by step?",
        "list all books on the shelf",
        # German
        "Welche Bücher haben Anna und Jonas gelesen?",
        "In welchen Städten war Jonas?",
        "Wie oft war der Zug zu spät?",
        "Was hat Anna alles gebacken?",
        # French
        "Quels livres Anna a-t-elle lus ?",
        "Combien de fois le train a-t-il été en retard ?",
        # Chinese
        "安娜读过哪些书？",
        "约纳斯去过几次海边？",
        "她都做过什么工作？",
        # Japanese
        "アンナは何回海に行きましたか。",
        "これまでにどんな本を読みましたか。",
        "誰と誰が来ましたか。",
    ],
)
def test_a_question_for_several_things_asks_for_a_list(query: str) -> None:
    assert asks_for_list(query)


@pytest.mark.parametrize(
    "query",
    [
        "What book did Anna read?",
        "Which bus goes to the harbour?",
        "What is the news?",
        "What news made her laugh?",
        "What ruined Anna's prints?",
        "Which Postgres extension must be installed?",
        "On what date is the interview?",
        "In which street is the daycare?",
        "What kind of work does Jonas do?",
        "How often does the sensor send a reading?",
        "How many tiles do we have to order?",
        "How many layers did he paint?",
        "Who has the key?",
        "Has she got a dog?",
        "Where was the list of guests?",
        "When did Jonas change his job?",
        "How do I change a tyre?",
        "kayak storage costs",
        # German
        "Welche Farbe hat das Boot?",
        "Welches Buch hat Anna gelesen?",
        "Wie oft fährt die Fähre?",
        "Was hat Anna gesagt?",
        # French
        "Quel livre Anna a-t-elle lu ?",
        "Combien coûte le bateau ?",
        # Chinese
        "钥匙在哪里？",
        "安娜读的是哪本书？",
        # Japanese
        "鍵はどこですか。",
        "アンナは何を読みましたか。",
    ],
)
def test_a_question_for_one_thing_asks_for_no_list(query: str) -> None:
    assert not asks_for_list(query)


@given(st.text(st.sampled_from("ab é字\n"), max_size=3 * PROMPT_CHARS_MAX))
def test_the_question_of_a_prompt_has_its_beginning_and_its_end_and_a_bound(prompt: str) -> None:
    question = question_of_prompt(prompt)
    text = prompt.strip()
    if len(text) <= PROMPT_CHARS_MAX:
        assert question == (prompt if len(prompt) <= PROMPT_CHARS_MAX else text)
        return
    head, tail = question.split("\n", 1)[0], question.rsplit("\n", 1)[-1]
    assert len(question) <= PROMPT_CHARS_MAX + 1
    assert text.startswith(head)
    assert text.endswith(tail)


def test_the_question_of_a_prompt_is_of_whole_words() -> None:
    words = " ".join(f"word{number}" for number in range(1000))
    question = question_of_prompt(words)
    assert set(question.split()) < set(words.split())
    assert (question.split()[0], question.split()[-1]) == ("word0", "word999")
