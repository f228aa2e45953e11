"""The command `mnemo doctor`: shows the checks, repairs what is safe with --fix, or writes a support bundle."""

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor.examination import CHECKS, examination, run_row
from mnemo_client.cli.format.state import doctor_lines
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED


def run(context: CommandContext) -> int:
    """Run all checks; exit 1 if one fails, with --fix if one still does. No daemon is started for them."""
    if context.options.bundle is not None:
        from mnemo_client.cli.doctor.support_bundle import write_bundle

        return write_bundle(context)
    with examination(context) as examined:
        checks = [check for row in CHECKS for check in run_row(row, examined, fixes=context.options.fix)]
    failed = any(check.outcome == "fail" for check in checks)
    if not context.print_json_if_asked({"ok": not failed, "checks": [check._asdict() for check in checks]}):
        context.print(*doctor_lines(checks, context.style))
    return EXIT_FAILED if failed else EXIT_DONE
