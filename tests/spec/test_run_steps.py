"""The call of a tool as a step of a run: one line, in which no part of a secret is left. SPEC 11.2"""

import pytest

from mnemo_client.protocol.sessions import HookRequest
from mnemo_core.text.secrets import mask_secrets
from mnemo_daemon.sessions.run_steps import step_of_call

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq98Zk1\n" * 20 + "-----END RSA PRIVATE KEY-----\n"


def action_and_outcome(call: HookRequest) -> tuple[str, str]:
    """The action and the outcome of the step of a call."""
    step = step_of_call(call, "coder", lambda text: mask_secrets(text, b"k")[0])
    return step.action, step.outcome


@pytest.mark.parametrize(
    ("failed", "result", "outcome"),
    [
        (False, "\n  40 passed\nin 3 s", "done: 40 passed…"),
        (False, "", "done"),
        (True, "exit\tcode\x1b 1", "failed: exit code  1"),
        (None, "40 passed", "40 passed"),
        (None, "", ""),
        (False, "x" * 300, f"done: {'x' * 199}…"),
    ],
)
def test_the_outcome_is_whether_it_failed_and_the_first_line_of_the_result(
    failed: bool | None, result: str, outcome: str
) -> None:
    assert action_and_outcome(HookRequest(tool="Bash", failed=failed, result=result)) == ("Bash", outcome)


def test_the_arguments_are_one_line_of_bounded_length() -> None:
    call = HookRequest(tool="Edit", arguments={"file_path": "/a.py", "old_string": "a = 1\nb = 2", "replace_all": ""})
    assert action_and_outcome(call)[0] == "Edit: file_path=/a.py, old_string=a = 1…"
    many = HookRequest(tool="Edit", arguments={f"argument_{number}": "x" * 500 for number in range(9)})
    assert len(action_and_outcome(many)[0]) == 300
    assert action_and_outcome(many)[0].startswith(f"Edit: argument_0={'x' * 108}…, argument_1=")


@pytest.mark.parametrize("size", [60, 70, 80, 90, 100, 110])
def test_of_a_secret_that_the_limit_of_a_line_divides_nothing_is_left(size: int) -> None:
    action, outcome = action_and_outcome(HookRequest(
        tool="Bash", arguments={"command": f"{'x' * size} {TOKEN} end", "content": f"{KEY}end"},
        result=f"{'y' * (2 * size)} {TOKEN} end",
    ))  # fmt: skip
    assert all(part not in action + outcome for part in (TOKEN[:12], TOKEN[-12:], "MIIE"))


def test_a_password_is_known_by_the_name_of_its_argument() -> None:
    action, _ = action_and_outcome(HookRequest(tool="login", arguments={"user": "ann", "password": "hunter2Xq9zz"}))
    assert action.startswith("login: user=ann, password=[masked:password:")


@pytest.mark.parametrize("colour", ["\x1b[01;31m\x1b[K", "\x1b[m\x1b[K", "\x1b[32m"])
def test_a_colour_hides_no_secret(colour: str) -> None:
    for result in (f"{colour}password{colour}=hunter2secret", f"password: {colour}hunter2secret\x1b[0m"):
        assert "hunter2" not in action_and_outcome(HookRequest(tool="Bash", result=result))[1]
