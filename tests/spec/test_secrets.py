"""Secrets of known shapes: found, also beside Chinese; masked; and what is none left alone. SPEC 5.1"""

import pytest

from mnemo_core.text.secrets import find_secrets, mask_secrets
from tests.support.time_complexity import require_linear

GITHUB = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("kind", "before", "secret", "after"),
    [
        ("private_key", "key:\n", KEY, "\nend"),
        ("private_key", "", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "\n\nnext"),
        ("aws_key", "id ", "AKIA" + "ABCDEFGH23456723", "."),
        ("aws_key", "aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY", "\n"),
        ("github_token", "use ", GITHUB, " now"),
        ("github_token", "", "github_pat_" + "A1b2C3d4E5" * 3, ""),
        ("gitlab_token", "", "glpat-" + "x1Y2z3-_" * 3, ""),
        ("slack_token", "", "xoxb-" + "1234567890-abcdef", ""),
        ("slack_token", "https://hooks.slack.com/services/", "T0000AAAA/B0000BBBB/" + "abcd1234" * 3, ""),
        ("google_key", "", "AIza" + "Sy" + "a1B2c3D4e5-" * 3, ""),
        ("stripe_key", "", "sk_live_" + "a1B2c3D4e5f6G7h8", ""),
        ("api_key", "", "sk-proj-" + "a1B2c3D4e5f6G7h8I9j0", ""),
        ("jwt", "", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + "abcDEF123_-x", ""),
        ("url_password", "postgres://me:", "pw123", "@db.local/x"),
        ("bearer_token", "Authorization: Bearer ", "a1B2c3D4e5f6G7h8I9j0", ""),
        ("password", "DB_PASSWORD=", "correcthorse", "\n"),
        ("password", "export API_TOKEN='", "abcdef", "'"),
        ("password", "SECRET_KEY: ", "qwertz", " # old"),
        ("password", "My password: ", "hunter2x", ", do not tell"),
        ("password", "我的密码是", "hunter2x", "，请保存"),
        ("password", "密码：", "hunter2x", "。"),
        ("password", "パスワードは", "hunter2x", "です"),
        ("password", "비밀번호: ", "hunter2x", ""),
    ],
)
def test_a_secret_is_found_whole(kind: str, before: str, secret: str, after: str) -> None:
    text = before + secret + after
    assert [(span.kind, text[span.start : span.end]) for span in find_secrets(text)] == [(kind, secret)]


def test_a_token_is_found_between_ideographs() -> None:
    text = f"令牌{GITHUB}在这里，用{'AKIA' + 'ABCDEFGH23456723'}登录"
    assert [span.kind for span in find_secrets(text)] == ["github_token", "aws_key"]


@pytest.mark.parametrize(
    "text",
    [
        "Token: the smallest unit of a text",
        "password = request.form['password']",
        "PASSWORD=${DB_PASSWORD}",
        "API_KEY=<your key>",
        "API_KEY=your_api_key",
        "SECRET=changeme",
        "TOKEN=xxxxxxxx",
        "secret: see below",
        "max_tokens: 2048",
        "the password is written on paper",
        "https://example.org:8080/path@home",
        "ssh://git@example.org/repo",
        "sk-learn-and-some-more-words-in-a-row",
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTestSecret-a1b2c3",
        "AKIAIOSFODNN7EXAMPLE",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
    ],
)
def test_a_text_without_secrets_is_left_unchanged(text: str) -> None:
    assert find_secrets(text) == []


def test_a_key_that_is_only_spoken_of_is_no_secret() -> None:
    drawn = "-----BEGIN RSA PRIVATE KEY-----\n... (private key in base64 encoding) ...\n-----END RSA PRIVATE KEY-----"
    assert find_secrets(drawn) == []
    assert find_secrets("The file begins with -----BEGIN PRIVATE KEY----- and ends in a line of its own.") == []


def test_a_mask_shows_kind_and_keyed_fingerprint() -> None:
    masked, kinds = mask_secrets(f"A=1\nmine {GITHUB} and again {GITHUB}\nDB_PASSWORD=correcthorse", b"key")
    first, second = masked.split("[masked:")[1:3]
    assert first.split("]")[0] == second.split("]")[0]
    assert first.startswith("github_token:")
    assert GITHUB not in masked
    assert "correcthorse" not in masked
    assert kinds == ("github_token", "password")


def test_another_key_gives_another_fingerprint() -> None:
    assert mask_secrets(GITHUB, b"one")[0] != mask_secrets(GITHUB, b"two")[0]


def test_masking_twice_is_masking_once() -> None:
    once = mask_secrets(f"DB_PASSWORD=correcthorse\npassword: hunter2x\nhttps://u:pw123@h/ {GITHUB}", b"key")[0]
    assert mask_secrets(once, b"key") == (once, ())


def test_letters_that_grow_when_lowered_do_not_shift_the_places() -> None:
    text = "İİİ password: hunter2x"
    assert [text[span.start : span.end] for span in find_secrets(text)] == ["hunter2x"]


@pytest.mark.parametrize(
    "bomb",
    ["A" * 500_000, "password:" * 50_000, "://" * 100_000, "eyJ" * 100_000, "-----BEGIN PRIVATE KEY-----" * 10_000,
     "sk-" * 100_000, "TOKEN_" * 80_000, "PASSWORD= #" * 50_000, "密码" * 200_000],
)  # fmt: skip
def test_hostile_texts_cost_what_their_length_costs(bomb: str) -> None:
    require_linear(find_secrets, bomb, units_max=400)
