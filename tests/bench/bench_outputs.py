"""Outputs of a language model with random weights under the grammar of each registered task: do all parse strictly?

    python -m tests.bench.bench_outputs [--outputs 1000]

A row a task. Exit 1 if an output does not parse, which is printed.
"""

import time

import msgspec

from mnemo_core.llm.registry import TASKS
from tests.bench import harness
from tests.bench.tables import show
from tests.support.random_outputs import outputs


def main(*, outputs_: int = 1000) -> int:
    rows: dict[str, list[str]] = {}
    failures = 0
    for task in TASKS:
        began = time.process_time()
        texts = [output.text for output in outputs([task], outputs_)]
        parsed = 0
        for text in texts:
            try:
                msgspec.json.decode(text, type=task.answer)
                parsed += 1
            except msgspec.DecodeError as error:
                print(f"{task.site}: {error}: {text!r}")
        failures += outputs_ - parsed
        seconds = time.process_time() - began
        rows[task.site] = [str(parsed), str(len(set(texts))), str(max(map(len, texts))), f"{seconds:.1f} s"]
    show("Outputs of a random model", ("parse", "different", "longest", "time"), rows)
    return 1 if failures else 0


if __name__ == "__main__":
    harness.run(main)
