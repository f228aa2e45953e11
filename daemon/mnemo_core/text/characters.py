"""Scripts by their characters: ranges to stand between the brackets of a character class, and the classes themselves.

The ranges are those of Unicode 15 that hold letters of running text; signs and punctuation of the scripts are not in
them. A pattern that needs another set of characters combines these.
"""

from mnemo_core.text.lazy_patterns import lazy_pattern

HIRAGANA = "\u3041-\u309f"
KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff"
KANA = HIRAGANA + KATAKANA
BOPOMOFO = "\u3105-\u312f"
HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # with the iteration mark 々 and the zero 〇
HANGUL = "\uac00-\ud7af"

UNSPACED = KANA + BOPOMOFO + HAN  # Chinese and Japanese: written without spaces between words
CJK = UNSPACED + HANGUL  # each of these characters counts as a word of its own where words are compared
FIRST_CJK = "\u3005"  # the lowest of them: what is below it is written with spaces

HIRAGANA_CHARACTER = lazy_pattern(f"[{HIRAGANA}]")
KANA_CHARACTER = lazy_pattern(f"[{KANA}]")
UNSPACED_CHARACTER = lazy_pattern(f"[{UNSPACED}]")
CJK_CHARACTER = lazy_pattern(f"[{CJK}]")
# Where case is ignored, a pattern takes these for s and i, which they stand for in no list of words.
CASE_LOOKALIKES = str.maketrans("\u017f\u0131\u0130", "siI")
WORD = lazy_pattern(rf"[{CJK}]|[^\W{CJK}]+")  # a word for comparing texts
