"""`mnemo completion`: the scripts by which shells complete commands and options, made from the table of commands."""

from collections.abc import Iterator

from mnemo_client.cli.command_table import COMMANDS, COMMON, all_commands
from mnemo_client.cli.command_types import Argument, Command
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.help_pages import EXIT_CODES_TOPIC


def run(context: CommandContext) -> None:
    script = SCRIPTS[context.options.shell]()
    if not context.print_json_if_asked({"shell": context.options.shell, "script": script}):
        context.print(script.rstrip("\n"))


def options_of(command: Command) -> list[Argument]:
    return [argument for argument in (*command.arguments, *COMMON) if argument.is_option]


def takes_files(command: Command) -> bool:
    return any(argument.files for argument in command.arguments)


def words_of(command: Command) -> list[str]:
    """Return the words to offer at the cursor: subcommands, choices of positional arguments, options."""
    words = [part.name for part in command.subcommands]
    words += [word for argument in command.arguments if not argument.is_option for word in argument.choices]
    words += [_values(argument) for argument in command.arguments if not argument.is_option and argument.values]
    return words + [name for option in options_of(command) for name in option.names if name.startswith("--")]


def _values(argument: Argument) -> str:
    """Return a command substitution for the shell, which lists the tags, namespaces or models of that moment."""
    return f"$(mnemo completion values {argument.values} 2>/dev/null)"


def bash() -> str:
    """Return the script for bash 4 and later: eval "$(mnemo completion bash)"."""
    lines = ["_mnemo() {", "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"]
    lines += ['  local name=${COMP_WORDS[1]} offered="" files=""', '  case "$name ${COMP_WORDS[2]}" in']
    lines += [f'    "{" ".join(name)}") name="{" ".join(name)}";;' for name, _ in all_commands() if len(name) == 2]
    lines += ["  esac", "  if (( COMP_CWORD == 1 )); then"]
    lines += [f'    offered="{" ".join(command.name for command in COMMANDS)} help"', "  else", '    case "$name" in']
    lines += [
        *_cases("      "),
        "    esac",
        '    case "$name:$before" in',
        *_choice_cases("      "),
        "    esac",
        "  fi",
    ]
    lines += ['  COMPREPLY=($(compgen -W "$offered" -- "$current"))']
    lines += ['  if [[ -n $files && $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi', "}"]
    return "\n".join([*lines, "complete -o filenames -F _mnemo mnemo", ""])


def zsh() -> str:
    """Return the script for zsh, after compinit: eval "$(mnemo completion zsh)"."""
    lines = ["_mnemo() {", '  local name=${words[2]} before=${words[CURRENT-1]} offered="" files=""']
    lines += ["  if (( CURRENT == 2 )); then", "    local -a commands"]
    lines += [f"    commands=({' '.join(_quoted(f'{c.name}:{c.help}') for c in COMMANDS)} 'help:explain a command')"]
    lines += ["    _describe command commands; return", "  fi", '  case "$name ${words[3]}" in']
    lines += [f'    "{" ".join(name)}") name="{" ".join(name)}";;' for name, _ in all_commands() if len(name) == 2]
    lines += ["  esac", '  case "$name" in', *_cases("    "), "  esac", '  case "$name:$before" in']
    lines += [*_choice_cases("    "), "  esac", "  compadd -- ${=offered}", "  if [[ -n $files ]]; then _files; fi"]
    return "\n".join([*lines, "}", "compdef _mnemo mnemo", ""])


def _help_pages() -> str:
    """The words after `mnemo help`."""
    return " ".join([*(command.name for command in COMMANDS), EXIT_CODES_TOPIC])


def _cases(indent: str) -> list[str]:
    """Yield for each command the words to offer at the cursor."""
    cases = [f'{indent}"help") offered="{_help_pages()}";;']
    for name, command in all_commands():
        files = "; files=1" if takes_files(command) else ""
        cases.append(f'{indent}"{" ".join(name)}") offered="{" ".join(words_of(command))}"{files};;')
    return cases


def _choice_cases(indent: str) -> list[str]:
    """Yield the words of each option that takes one of a few."""
    cases = []
    for name, command in all_commands():
        for option in options_of(command):
            if offered := " ".join(option.choices) or (option.values and _values(option)):
                pattern = "|".join(f'"{" ".join(name)}:{each}"' for each in option.names)
                cases.append(f'{indent}{pattern}) offered="{offered}"; files="";;')
    return cases


def fish() -> str:
    """Return the script for fish: mnemo completion fish > ~/.config/fish/completions/mnemo.fish."""
    lines = ["complete -c mnemo -f"]
    lines += [f"complete -c mnemo -n __fish_use_subcommand -a {c.name} -d {_quoted(c.help)}" for c in COMMANDS]
    lines += ["complete -c mnemo -n __fish_use_subcommand -a help -d 'explain a command'"]
    lines += [f"complete -c mnemo -n '__fish_seen_subcommand_from help' -a '{_help_pages()}'"]
    for name, command in all_commands():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name)
        lines += [f"complete -c mnemo -n '{seen}' {rest}" for rest in _fish_rules(command)]
    return "\n".join([*lines, ""])


def _fish_rules(command: Command) -> Iterator[str]:
    for part in command.subcommands:
        yield f"-a {part.name} -d {_quoted(part.help)}"
    for argument in command.arguments:
        if not argument.is_option and (offered := _fish_words(argument)):
            yield f"-a '{offered}'"
    if takes_files(command):
        yield "-F"
    for option in options_of(command):
        names = " ".join(f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in option.names)
        takes = "" if option.is_flag else " -x"
        choices = f" -a '{offered}'" if (offered := _fish_words(option)) else ""
        yield f"{names}{takes}{choices} -d {_quoted(option.help)}"


def _fish_words(argument: Argument) -> str:
    return " ".join(argument.choices) or (f"({_values(argument)[2:-1]})" if argument.values else "")


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def file_text(shell: str) -> str:
    """Return the script as a file that the shell loads by itself from its folder of completions."""
    if shell == "zsh":  # such a file is the body of a function of its own name
        return f'#compdef mnemo\n{zsh()}_mnemo "$@"\n'
    return SCRIPTS[shell]()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
