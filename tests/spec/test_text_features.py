"""Features of a text, text by text. SPEC 7.3"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.text.text_features import TextFeature, features_of_text

# For each bit, texts that have it and texts that come close.
TEXTS: dict[TextFeature, tuple[list[str], list[str]]] = {
    TextFeature.ENDS_WITH_QUESTION: (
        ["How are you?", 'He asked: "why?"', "Really?!", "Ready? 😊", "你好吗？", "Wirklich ?  "],
        ["Why? I asked him.", "No question.", "", "Is it? Yes"],
    ),
    TextFeature.IS_QUESTION: (
        ["How are you?", "Why? And when?", "你好吗？", "And you, Anna?"],
        ["I fed the cat. And you?", "He asked: why?", "Why? I asked him.", "No question.", "我很好。你呢？"],
    ),
    TextFeature.HAS_QUESTION: (["Why? I asked him.", "什么？我不知道"], ["I wonder why.", ""]),
    TextFeature.HAS_NUMBER: (
        [
            "I have 3 cats", "She ran twice", "A dozen eggs", "about a hundred people", "a couple of days", "ONCE more",
            "zwei Hunde", "vingt et onze", "三个孩子", "我去过两次", "２ 本",
        ],
        ["someone came", "The often seen", "We weren't alone", "我们一起去", ""],
    ),
    TextFeature.HAS_DATE: (
        [
            "We met on Friday", "Back in 1998", "Yesterday I slept", "two weeks ago", "last summer was hot",
            "in the last few weeks", "this past weekend", "the last couple of months", "next year", "on the 3rd",
            "am 3.5.2024", "since 3/5/24", "5月3日に会う", "2023年", "昨天下雨", "先週の月曜日", "上个月", "in March",
            "it was in May", "Jan 5 is free", "vor drei Tagen, gestern", "nächste Woche", "hier soir",
            "la semaine dernière", "Meet on 2024-05-03", "5 May", "am Montag", "in the 1990s,",
        ],
        [
            "I may march on", "The last one", "this is next", "version 1.2.3 of it", "room 2034b", "$2000 in cash",
            "Mars is a planet", "20245 items", "Every week we meet", "May I come in", "我们明白",
        ],
    ),
    TextFeature.HAS_PROPER: (
        ["I met Anna", "the Eiffel Tower", "yes, Jonas did", "we saw 3 Ducks", "j'ai vu Paris", "the NASA page"],
        [
            "Anna met me.", "It rained. Then I left.", "I think I'm done", "plain words", "Hello! We came",
            "Ich habe das Haus und den Garten gesehen", "Wir waren im Garten und auf dem Berg", "我去 Paris",
        ],
    ),
    TextFeature.HAS_QUOTE: (
        ['She said "no" to me', "I read 'The Hobbit' twice", "“curly”", "‘Emma’ is old", "«chat»", "„gut“",
         "我看了《红楼梦》"],
        ["It's Anna's and Ben's", "don't and won't", 'a 5" pipe', "the dogs' bowl", "rock 'n' roll"],
    ),
    TextFeature.HAS_MONEY_OR_UNIT: (
        ["$5 off", "it was 3€", "50% done", "ran 5 km", "weighs 80kg", "ten dollars", "20 miles", "3 GB left", "30 °C",
         "一百元", "5公里", "100 Prozent"],
        ["room 5", "5 kmart shops", "3 lions", "a metre", "I gained", "five of them"],
    ),
    TextFeature.HAS_REASON: (
        ["I left because of rain", "Since you asked, I went", "so that it fits", "That's why I left", "which is why",
         "the reason is him", "It inspired me", "due to rain", "thanks to you", "in order to win", "as a result",
         "weil es regnet", "Deshalb blieb ich", "parce que j'ai faim", "因为下雨", "雨だから帰る"],
        ["also that one", "so thatched", "I was early", "order it to me", "why not", "the result", "due soon"],
    ),
    TextFeature.FIRST_PERSON: (
        ["I went", "It is my boat", "we are here", "I'm tired", "they saw us", "let's go", "Ich bin da", "mein Boot",
         "j'aime ça", "notre maison", "我去过", "私の家"],
        ["It is in time", "The US economy", "miss you", "Imagine that", "weak", "他们去过"],
    ),
    TextFeature.HAS_LIST: (
        ["cats, dogs, and birds", "- one\n- two", "1. one\n2) two", "猫、犬、鳥", "苹果，梨，桃"],
        ["cats, dogs", "1,000,000 cats", "- one", "a-b-c", "猫、犬", "1,200 and 3,400 of it"],
    ),
    TextFeature.HAS_PLACE: (
        ["He lives in Lisbon", "We met at Central Park", "moved to the Netherlands", "from Rome", "near Oslo",
         "In Rome", "wohnt in Berlin", "fährt nach Hamburg", "habite à Paris", "他住在北京市", "東京駅で会う",
         "我在学校"],
        ["Lisbon is nice", "in May", "on Monday, to Friday", "to I", "in the house", "login Anna", "at home"],
    ),
    TextFeature.HAS_DURATION: (
        ["It took two years", "for three Weeks", "since 2019", "all day", "the whole week", "for a year",
         "a 5-year plan", "a 2 hour talk", "half an hour", "seit Montag", "drei Jahre lang", "pendant deux heures",
         "depuis hier", "三年", "住了2个月", "２時間"],
        ["next week", "this year", "one of them", "a yearly plan", "2023年", "三天前", "every day", "for the week"],
    ),
    TextFeature.HAS_FEELING: (
        ["I love it", "She hates rain", "my favourite food", "so HAPPY", "we felt fine", "I was excited", "Ich mag das",
         "j'adore ça", "我喜欢猫", "猫が好き"],
        ["The glove", "It is unlikely", "a feeler", "he runs", "他有猫"],
    ),
    TextFeature.HAS_NEGATION: (
        ["I do not", "never again", "I don't know", "I can't", "nobody came", "cannot", "nicht gut", "kein Brot",
         "je n'ai rien", "ce n'est pas ça", "我不知道", "わからない", "I don’t"],
        ["knot", "another note", "a note now", "他知道", "Isnt"],
    ),
    TextFeature.IS_REACTION: (
        ["Hey Anna, it rained", "wow, that is it", "Thanks!", "hahaha yes", "That's great", "Sounds good",
         "Congratulations to you", "Great job", "Yeah, sure", "No, thanks", "ok", "*Oh* well", "Good luck", "Danke dir",
         "Merci bien", "谢谢你", "そうですね"],
        ["Heyday of it", "Okapi are animals", "No one came", "The great one", "Ohio is far", "Goodbye", "Nicety",
         "Surely not", "Notes"],
    ),
    TextFeature.IS_SHORT: (
        ["", "Hello there", "one two three four five six", "我喜欢猫", "十一個字是短的呢呢呢呢"],
        ["one two three four five six seven", "1 2 3 4 5 6 7", "我昨天和妹妹在北京吃了饭", "十二個字不是短的呢呢呢呢"],
    ),
}  # fmt: skip


def cases(side: int) -> list[tuple[TextFeature, str]]:
    return [(shape, text) for shape, texts in TEXTS.items() for text in texts[side]]


@pytest.mark.parametrize(("shape", "text"), cases(0))
def test_a_text_has_what_it_plainly_has(shape: TextFeature, text: str) -> None:
    assert shape in TextFeature(features_of_text(text))


@pytest.mark.parametrize(("shape", "text"), cases(1))
def test_a_text_has_not_what_it_only_comes_close_to(shape: TextFeature, text: str) -> None:
    assert shape not in TextFeature(features_of_text(text))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("The boat lies in the old harbour by now.", TextFeature(0)),
        (
            "Hey Melanie, I finally went to Lisbon last Friday, because my sister lives there!",
            TextFeature.IS_REACTION | TextFeature.HAS_PROPER | TextFeature.FIRST_PERSON | TextFeature.HAS_PLACE
            | TextFeature.HAS_DATE
            | TextFeature.HAS_REASON | TextFeature.HAS_LIST,
        ),
        (
            "How many years did “Emma” cost $5, not 6?",
            TextFeature.HAS_DURATION | TextFeature.HAS_QUOTE | TextFeature.HAS_MONEY_OR_UNIT
            | TextFeature.HAS_NUMBER | TextFeature.HAS_NEGATION
            | TextFeature.HAS_QUESTION | TextFeature.ENDS_WITH_QUESTION | TextFeature.IS_QUESTION,
        ),
    ],
)  # fmt: skip
def test_a_whole_text_has_these_bits_and_no_others(text: str, shape: TextFeature) -> None:
    assert TextFeature(features_of_text(text)) == shape


@given(st.text() | st.text(st.sampled_from("aA1 .,?'\"’“-\n五月天都が私"), max_size=60))
def test_any_text_has_a_shape_and_asks_only_with_a_mark(text: str) -> None:
    shape = TextFeature(features_of_text(text))
    assert (TextFeature.HAS_QUESTION in shape) == ("?" in text or "？" in text)
    assert TextFeature.HAS_QUESTION in shape or TextFeature.ENDS_WITH_QUESTION not in shape


def test_every_shape_is_shown_and_fits_a_column() -> None:
    assert set(TEXTS) == set(TextFeature)
    assert [int(shape) for shape in TextFeature] == [
        1 << bit for bit in range(17)
    ]  # kept in files: never another value
