"""`ipu-tf completion SHELL`: the script with which a shell completes the command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ipu_tf.cli.command import Command
from ipu_tf.cli.output import add_json, print_json
from ipu_tf.internals.command_line import actions_of, commands_of

_SHELLS = ("bash", "zsh", "fish")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell")
    add_json(parser)


def _run(options: argparse.Namespace) -> int:
    words = _words(options.parser)
    if options.json:
        print_json(words)
    elif options.shell == "fish":
        print("\n".join(_fish(words)))
    else:
        print("\n".join([*_zsh_setup(options.shell), *_bash(words)]))
    return 0


def _words(parser: argparse.ArgumentParser) -> dict[str, dict[str, list[str]]]:
    """Returns, for each command, its options and the words that may follow them."""
    return {name: _options(command) for name, command in commands_of(parser).items()}


def _options(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Returns the options of a command; "" stands for its positional arguments."""
    choices_of: dict[str, list[str]] = {"": []}
    for action in actions_of(parser):
        choices = [str(choice) for choice in action.choices or ()]
        for option in action.option_strings:
            choices_of[option] = choices
        if not action.option_strings:
            choices_of[""] += choices
    return choices_of


def _zsh_setup(shell: str) -> Iterator[str]:
    if shell == "zsh":
        yield "autoload -U +X bashcompinit && bashcompinit"


def _bash(words: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    yield "_ipu_tf() {"
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" words=""'
    yield '  local before="${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"    words={_quoted([*words, '--help', '--version'])}"
    yield "  else"
    yield '    case "$before" in'
    for command, options in words.items():
        for option, choices in options.items():
            if option and choices:
                yield f"      {shlex.quote(f'{command} {option}')}) words={_quoted(choices)} ;;"
    yield '      *) case "${COMP_WORDS[1]}" in'
    for command, options in words.items():
        candidates = [*(option for option in options if option), *options[""]]
        yield f"        {command}) words={_quoted(candidates)} ;;"
    yield "      esac ;;"
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _ipu_tf ipu-tf"


def _fish(words: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    command_names = _quoted([*words])
    yield f"complete -c ipu-tf -n __fish_use_subcommand -a {command_names}"
    for command, options in words.items():
        where = f"complete -c ipu-tf -n {shlex.quote(f'__fish_seen_subcommand_from {command}')}"
        for option, choices in options.items():
            arguments = f" -xa {_quoted(choices)}" if choices else ""
            if option.startswith("--"):
                yield f"{where} -l {option.removeprefix('--')}{arguments}"
            elif option:
                yield f"{where} -s {option.removeprefix('-')}{arguments}"
            elif choices:
                yield f"{where} -a {_quoted(choices)}"


def _quoted(words: Any) -> str:
    return shlex.quote(" ".join(words))


COMPLETION = Command(
    name="completion",
    summary="print the completion script of a shell",
    description='Prints the script with which a shell completes: `eval "$(ipu-tf completion '
    'bash)"` in bash or zsh, `ipu-tf completion fish | source` in fish.',
    add_arguments=_add_arguments,
    run=_run,
)
