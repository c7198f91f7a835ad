"""Writes docs/reference/commands.md, settings.md and the tables of job-file.md: `python docs/make_reference.py`.

The page of commands is made from the functions behind the commands, not from printed help, so that it is the same on every terminal
and with every version of Typer. tests/docs/test_reference.py fails where the committed page is another one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import job_file_page
import settings_page
import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo, ParameterInfo

from mlcd.cli.main import app
from mlcd_bench.command import app as bench_app
from mlcd_emulate.command import app as emulate_app
from mlcd_functions.packaging.command import app as package_app

PAGE = Path(__file__).parent / "reference" / "commands.md"
HEAD = """\
# Commands

<!-- Made by docs/make_reference.py from the commands themselves; edit their help, not this page. -->

Every command takes `--help` (or `-h`). Listings and results take `--json`: one JSON document on standard output, and nothing else
there. What the [exit codes](exit-codes.md) mean is the same everywhere. A job goes by its id (such as
`digits-3f2a1c`), by the beginning of it, or by its name, which then means the newest of that name.
"""
_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command, as its function declares it."""

    name: str
    kind: Any
    info: ParameterInfo
    default: Any

    @property
    def words(self) -> str:
        """How it is written: `--budget TEXT`, `--yes`, `JOB.yaml`."""
        if isinstance(self.info, ArgumentInfo):
            return str(self.info.metavar or self.name.upper())
        declared = [self.info.default, *(self.info.param_decls or ())]  # in Annotated the first one is there
        names = [name for name in declared if isinstance(name, str) and name.startswith("-")]
        names = names or [f"--{self.name.replace('_', '-')}"]
        if self.kind is bool:
            return ", ".join(names + ([f"--no-{self.name}"] if self.default is True else []))
        return f"{', '.join(names)} {self.value}"

    @property
    def value(self) -> str:
        """What its value looks like."""
        if isinstance(self.kind, type) and issubclass(self.kind, Enum):
            return "|".join(str(choice.value) for choice in self.kind)
        return str(self.info.metavar or _KINDS.get(self.kind, "TEXT"))

    @property
    def meaning(self) -> str:
        """Its help, with the default where there is one to tell."""
        told = self.default if not isinstance(self.default, Enum) else self.default.value
        silent = told is None or isinstance(told, bool) or told in ("", ()) or not self.info.show_default
        return str(self.info.help or "") + ("" if silent else f" Default: `{told}`.")


def make_page() -> str:
    """The whole page."""
    commands = sorted(all_commands(), key=lambda pair: pair[0])
    index = "\n".join(f"- [`mlcd {name}`](#{anchor(name)}): {first_line(call)}" for name, call in commands)
    return HEAD + "\n" + index + "\n\n" + "\n".join(section(name, call) for name, call in commands)


def all_commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names and functions, those of the distributions below packages/ too."""
    yield from map(named, [*app.registered_commands, *bench_app.registered_commands])
    for group, plugin in (("emulate", emulate_app), ("package", package_app)):
        for name, call in map(named, plugin.registered_commands):
            yield f"{group} {name}", call


def anchor(name: str) -> str:
    """Where the command's section begins."""
    return f"mlcd {name}".replace(" ", "-")


def named(command: CommandInfo) -> tuple[str, Callable[..., Any]]:
    """A command's name and function."""
    assert command.callback is not None
    return command.name or command.callback.__name__, command.callback


def section(name: str, call: Callable[..., Any]) -> str:
    """What there is to say of one command."""
    parameters = list(parameters_of(call))
    arguments = [each for each in parameters if isinstance(each.info, ArgumentInfo)]
    options = [each for each in parameters if isinstance(each.info, OptionInfo)]
    usage = " ".join(["mlcd", name, *(["[OPTIONS]"] if options else []), *map(usage_of, arguments)])
    parts = [f"## mlcd {name}", f"```text\n{usage}\n```", markdown(inspect.getdoc(call) or "")]
    if parameters:
        parts.append(table([*arguments, *options]))
    return "\n\n".join(parts) + "\n"


def usage_of(argument: Parameter) -> str:
    """An argument in the usage line, in brackets where it may be left out."""
    bare = argument.words.strip("[]")
    return bare if argument.default is inspect.Parameter.empty else f"[{bare}]"


def parameters_of(call: Callable[..., Any]) -> Iterator[Parameter]:
    """Arguments and options in the order of the function."""
    hints = get_type_hints(call, include_extras=True)
    for name, parameter in inspect.signature(call).parameters.items():
        hint = hints[name]
        if get_origin(hint) is Annotated and isinstance(get_args(hint)[1], ParameterInfo):
            kind, info = get_args(hint)[:2]
            yield Parameter(name, plain_kind(kind), info, parameter.default)


def plain_kind(kind: Any) -> Any:
    """The type without `| None` and without the list around it."""
    inner = [each for each in get_args(kind) if each is not type(None)]
    return plain_kind(inner[0]) if inner else kind


def table(parameters: list[Parameter]) -> str:
    """Arguments first, then options, one in each row."""
    rows = [f"| `{cell(each.words)}` | {cell(each.meaning)} |" for each in parameters]
    return "\n".join(["| | |", "|---|---|", *rows])


def cell(words: str) -> str:
    """The words as a cell of a table takes them."""
    return " ".join(words.replace("|", "\\|").split())


def markdown(doc: str) -> str:
    """A docstring as Markdown: its indented examples become a block, whichever way they are marked."""
    lines = [line.rstrip() for line in doc.replace("\b\n", "").splitlines()]
    text, _, examples = "\n".join(lines).partition("Examples:")
    commands = [line.strip() for line in examples.splitlines() if line.strip()]
    block = "```console\n" + "\n".join(f"$ {command}" for command in joined(commands)) + "\n```"
    return re.sub(r"\n{3,}", "\n\n", text).strip() + (f"\n\n{block}" if commands else "")


def joined(lines: list[str]) -> list[str]:
    """The commands, those that go over two lines put together."""
    commands: list[str] = []
    for line in lines:
        if commands and not line.startswith("mlcd "):
            commands[-1] = f"{commands[-1].removesuffix(chr(92)).rstrip()} {line}"
        else:
            commands.append(line)
    return commands


def first_line(call: Callable[..., Any]) -> str:
    """What a command does, in one sentence."""
    return (inspect.getdoc(call) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
    page = job_file_page.PAGE.read_text(encoding="utf-8")
    job_file_page.PAGE.write_text(job_file_page.make_page(page), encoding="utf-8")
    settings_page.PAGE.write_text(settings_page.make_page(), encoding="utf-8")
    typer.echo(f"{PAGE}, {job_file_page.PAGE} and {settings_page.PAGE} written")
