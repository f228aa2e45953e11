"""The commands of several devices with one memory: sync init, join, status, now, devices, invite, remove, leave."""

import getpass
import secrets

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import local_minute, plural, short_path
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.maintenance import SyncAnswer

PASSPHRASE_VARIABLE = "MNEMO_SYNC_PASSPHRASE"


def init(context: CommandContext) -> None:
    options = context.options
    folder, client = context.path(options.folder), context.client()
    passphrase = _new_passphrase(context)
    answer = client.share(str(folder), passphrase=passphrase, name=options.name, create=True)
    if context.print_json_if_asked():
        return
    shown = short_path(str(folder), context.cwd, context.home)
    context.print(f"{context.style.good('shared')} through {shown}")
    _report_problem(context, answer)
    context.message(f"on the other device, once the folder is there: mnemo sync join {shown}")
    context.message("it asks for the passphrase, or takes the pairing code of: mnemo sync invite")


def join(context: CommandContext) -> None:
    options = context.options
    folder, client = context.folder(options.folder), context.client()
    passphrase = None if options.code else context.environ.get(PASSPHRASE_VARIABLE)
    if not options.code and not passphrase:
        if not context.has_terminal or options.yes:
            fix = f"give --code, of `mnemo sync invite` on the other device, or set {PASSPHRASE_VARIABLE}"
            raise UsageError("the passphrase of the folder is needed, and there is no terminal to ask", fix)
        passphrase = getpass.getpass("passphrase of the folder: ")
    answer = client.share(str(folder), passphrase=passphrase or None, code=options.code, name=options.name)
    if context.print_json_if_asked():
        return
    others = [each for each in answer.devices if not each.is_this]
    read = sum(each.read for each in others)
    context.print(f"{context.style.good('joined')}: {plural(read, 'change')} of {plural(len(others), 'device')} merged")
    _report_problem(context, answer)


def status(context: CommandContext) -> int:
    answer = context.client().sync_status()
    if context.print_json_if_asked():
        return EXIT_DONE if answer.shared else EXIT_NOT_FOUND
    return _show(context, answer)


def now(context: CommandContext) -> int:
    answer = context.client().exchange_changes()
    return EXIT_DONE if context.print_json_if_asked() else _show(context, answer)


def invite(context: CommandContext) -> None:
    answer = context.client().invite()
    if not context.print_json_if_asked():
        context.print(answer.code)
        context.message(
            "whoever has this code and the folder can read the whole memory: mnemo sync join FOLDER --code …"
        )


def remove(context: CommandContext) -> int:
    options, client = context.options, context.client()
    answer = client.sync_status()
    if not answer.shared:
        return EXIT_NOT_FOUND if context.print_json_if_asked() else _show(context, answer)
    known = answer.devices
    if not any(options.device in (each.id, each.name) and not each.is_this for each in known):
        there = ", ".join(f"{each.name} ({each.id})" for each in known if not each.is_this)
        raise UsageError(f"no other device is called {options.device!r}", f"there are: {there or 'none'}")
    if not options.yes:
        context.confirm(f"remove {options.device}: it gets nothing new, and every other device has to join again")
    removal = client.remove_device(options.device, _new_passphrase(context))
    if not context.print_json_if_asked():
        context.print(f"{context.style.good('removed')} {options.device}; the folder has a new key")
        context.message(f"on each device that stays: mnemo sync rejoin --code {removal.code}")
    return EXIT_DONE


def rejoin(context: CommandContext) -> int:
    options = context.options
    answer = context.client().renew_key(options.code)
    return EXIT_DONE if context.print_json_if_asked() else _show(context, answer)


def leave(context: CommandContext) -> int:
    client = context.client()
    answer = client.sync_status()
    if not answer.shared:
        return EXIT_NOT_FOUND if context.print_json_if_asked() else _show(context, answer)
    if not context.options.yes:
        context.confirm("share the memory no more; everything stays on this device")
    client.leave()
    if not context.print_json_if_asked():
        context.print(context.style.good("left"))
    return EXIT_DONE


def _new_passphrase(context: CommandContext) -> str:
    """A new passphrase: from the environment, typed twice, or a random one where nobody is to be asked."""
    if given := context.environ.get(PASSPHRASE_VARIABLE):
        return given
    if context.options.yes or not context.has_terminal:
        context.message("the passphrase is a random one: other devices join with the code of `mnemo sync invite`")
        return secrets.token_urlsafe(24)
    typed = getpass.getpass("new passphrase: ")
    if not typed:
        raise UsageError("a passphrase has at least one character")
    if typed != getpass.getpass("again: "):
        raise UsageError("the two are not the same; nothing was changed")
    return typed


def _show(context: CommandContext, answer: SyncAnswer) -> int:
    style = context.style
    if not answer.shared:
        _report_problem(context, answer)
        context.message("the memory is not shared; begin with: mnemo sync init FOLDER, or join FOLDER")
        return EXIT_NOT_FOUND
    context.print(f"folder   {short_path(answer.folder or '', context.cwd, context.home)}")
    exchanged = local_minute(answer.exchanged_at) if answer.exchanged_at else "not since the daemon was started"
    context.print(f"exchange {exchanged}")
    if answer.unsent:
        context.print(f"waiting  {plural(answer.unsent, 'change')} of this device")
    for each in answer.devices:
        merged = "this one" if each.is_this else "removed" if each.removed else f"{plural(each.read, 'change')} merged"
        context.print(f"device   {each.name or each.id}  {merged}")
        for text in filter(None, (each.problem, each.waiting)):
            context.print(f"         {style.bad(text) if text == each.problem else text}")
    _report_problem(context, answer)
    return EXIT_DONE


def _report_problem(context: CommandContext, answer: SyncAnswer) -> None:
    if answer.problem:
        context.print(context.style.bad(answer.problem))
