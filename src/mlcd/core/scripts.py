"""What a job's command shows of its program: the script that it starts, its platform, its module path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from mlcd import registry
from mlcd.core.job import Job

_RUNNERS = frozenset({"python", "python3", "torchrun", "accelerate", "deepspeed", "spark-submit", "bash", "sh"})
_SCRIPT = re.compile(r"[\w./-]+\.(?:py|sh)")
_EXPANDED = re.compile(r"[$`]")  # only the shell knows what stands there: it may be the script
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_SETS_PATH = re.compile(r"(?<![\w${-])PYTHONPATH=(?!\S*\$\{?PYTHONPATH)")
_LARGEST_SCRIPT = 1_000_000  # bytes
_MOST_SCRIPTS = 2000
# Of several platforms that fit a script, outside ones go first, since they build on these; then in this order: a driver of
# Spark may train with torch in its executors, and torch programs may import the others' tools.
_LAST = ("spark", "pytorch", "tensorflow", "jax", "mxnet", "command")
_PYTHON_SCRIPT = re.compile(r"(?:^|[\s'\"=])([\w./-]+\.py)\b")
_MODULE = re.compile(r"\s-m\s+([\w.]+)")
_OTHER_PROGRAMS = frozenset({"-c", "-m"})  # of the interpreter: what it runs is no file, or one elsewhere


def missing_script(job: Job) -> str | None:
    """The script that the command names and that is neither in the working directory nor mounted."""
    script = first_script(job.run)
    if script is None or Path(script).is_absolute() or ".." in Path(script).parts:
        return None
    mounted = any(Path(script).is_relative_to(where) for where in job.file_mounts)
    there = bool(job.workdir) and (Path(job.workdir) / script).exists()
    return None if there or mounted else script


def first_script(run: str) -> str | None:
    """The script of the first command; None where the shell has to be understood to tell."""
    words = _first_command(run)
    if not words or Path(words[0]).name not in _RUNNERS or _OTHER_PROGRAMS & set(words):
        return None
    word = next((word for word in words[1:] if _SCRIPT.fullmatch(word) or _EXPANDED.search(word)), "")
    return word if _SCRIPT.fullmatch(word) else None


def _first_command(run: str) -> list[str]:
    lines = (line.strip() for line in run.replace("\\\n", " ").splitlines())
    line = next((line for line in lines if line and not line.startswith("#")), "")
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quotation that goes on in the next line
        return []
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] == "exec"):
        words.pop(0)
    return words


def keeping_python_path(run: str) -> str:
    """The command with what is in PYTHONPATH kept where it sets that anew: mlcd's worker comes by it.

    `PYTHONPATH=src python train.py` would hide the worker, and no step would be counted.
    """
    return _SETS_PATH.sub("PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}", run)


def likely_platform(run: str, workdir: str) -> str:
    """The platform whose launcher the command names, or whose packages its script imports; else 'command'."""
    for name, platform in _platforms().items():
        if _any_word(getattr(platform, "launchers", ()), r"\b(?:{})\b", [run]):
            return name
    scripts = list(_scripts(run, workdir))
    for name, platform in _platforms().items():
        if _any_word(getattr(platform, "packages", ()), r"^\s*(?:import|from)\s+(?:{})\b", scripts):
            return name
    return "command"


@cache
def _platforms() -> dict[str, Any]:
    """All platforms in the order in which they are considered; a plug-in that cannot be imported is left out."""
    found = registry.loadable("platforms")
    outside = [name for name in found if name not in _LAST]
    return {name: found[name] for name in (*outside, *_LAST) if name in found}


def _any_word(words: tuple[str, ...], pattern: str, texts: list[str]) -> bool:
    """Whether one of the words, in which `*` stands for the rest of a name, is in a text where the pattern says."""
    alternatives = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in words)
    found = re.compile(pattern.format(alternatives), re.MULTILINE)
    return bool(words) and any(found.search(text) for text in texts)


def named_scripts(run: str, workdir: str) -> Iterator[str]:
    """The Python files that a command names, by `train.py` or `-m train`, and that are in the folder."""
    modules = [module.replace(".", "/") for module in _MODULE.findall(run)]
    files = [f"{module}{ending}" for module in modules for ending in (".py", "/__main__.py")]
    names = [str(Path(name)) for name in (*_PYTHON_SCRIPT.findall(run), *files)]
    yield from (name for name in dict.fromkeys(names) if workdir and (Path(workdir) / name).is_file())


def _scripts(run: str, workdir: str) -> Iterable[str]:
    for name in named_scripts(run, workdir):
        file = Path(workdir) / name
        try:
            if file.stat().st_size < _LARGEST_SCRIPT:
                yield file.read_text(errors="ignore")
        except OSError:
            continue  # a guess that cannot be read is no guess


def python_files(workdir: str) -> Iterator[tuple[Path, str]]:
    """The Python files below a folder, by their path in it, with their text; none of hidden folders, such as .venv."""
    root = Path(workdir)
    shown = (
        file for file in root.rglob("*.py") if not any(part.startswith(".") for part in file.relative_to(root).parts)
    )
    for file in sorted(islice(shown, _MOST_SCRIPTS)) if workdir else ():
        try:
            with file.open(errors="replace") as stream:
                yield file.relative_to(root), stream.read(_LARGEST_SCRIPT)
        except OSError:
            continue
