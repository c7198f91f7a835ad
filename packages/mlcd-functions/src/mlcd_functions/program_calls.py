"""What a program calls and imports, by the names that its packages have for it, as far as its files tell.

    import jax.distributed as d        d.initialize(…)        ──►  jax.distributed.initialize
    from tensorflow import distribute  distribute.Server(…)   ──►  tensorflow.distribute.Server

Only files that the command starts, and those that these import, are the program: comments, texts, and files that
nobody imports are not. Where the command does not tell what it starts, all files are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from mlcd.core.scripts import named_scripts, python_files

_LOADERS = frozenset({"import_module", "__import__", "run_path", "run_module"})  # of what only the program knows


@dataclass(frozen=True)
class Call:
    """A call, with the texts that it is given and under which keyword, if under one."""

    name: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """One file of a program."""

    path: Path  # within the program's folder
    tree: ast.Module

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """Modules, and what is taken from them: either may be a module."""
        return tuple(dict.fromkeys(name for _, name in _imported(self.tree, self.path)))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """In the order of the file."""
        names = {**dict(_imported(self.tree, self.path)), **_plain_imports(self.tree)}
        texts = dict(_assigned_texts(self.tree))
        names.update(_assigned_names(self.tree, names))
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        named = ((_dotted(node.func, names), node) for node in found)
        return tuple(Call(name, tuple(_texts_of(node, texts))) for name, node in named if name)


def sources(run: str, workdir: str) -> list[Source]:
    """The files that make up the program."""
    files = {file: source for file, text in python_files(workdir) if (source := _parsed(file, text)) is not None}
    begun = [Path(name) for name in named_scripts(run, workdir) if Path(name) in files]
    reached = _reached(begun, files)
    unknown = any(call.name.rpartition(".")[2] in _LOADERS for source in reached for call in source.calls)
    return list(files.values()) if unknown or not reached else reached


def _reached(begun: Sequence[Path], files: Mapping[Path, Source]) -> list[Source]:
    found: dict[Path, Source] = {}
    folders = {file.parent for file in begun} | {Path()}
    waiting = list(begun)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = files[file]
            waiting.extend(_files_of(files[file].imports, folders, files))
    return list(found.values())


def _files_of(modules: Sequence[str], folders: set[Path], files: Mapping[Path, Source]) -> Iterator[Path]:
    """A module's file, and those of the packages that it is in."""
    for module in modules:
        parts = module.split(".")
        for folder in folders:
            for end in range(1, len(parts) + 1):
                place = folder.joinpath(*parts[:end])
                yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file in files)


def _parsed(file: Path, text: str) -> Source | None:
    try:
        return Source(file, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):  # Python could not run it either
        return None


def _imported(tree: ast.Module, file: Path) -> Iterator[tuple[str, str]]:
    """Local name → full name, of everything that is imported; `import a.b` gives a.b as itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, file)
            yield from ((one.asname or one.name, f"{base}.{one.name}".strip(".")) for one in node.names)


def _plain_imports(tree: ast.Module) -> dict[str, str]:
    """`import a.b` binds a."""
    plain = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    tops = (one.name.partition(".")[0] for node in plain for one in node.names if one.asname is None)
    return {top: top for top in tops}


def _absolute(node: ast.ImportFrom, file: Path) -> str:
    """The module of a `from` import, a relative one seen from its file."""
    if not node.level:
        return node.module or ""
    above = PurePosixPath(file.as_posix()).parts[: -node.level]
    return ".".join([*above, *([node.module] if node.module else [])])


def _assigned_names(tree: ast.Module, names: Mapping[str, str]) -> dict[str, str]:
    """`strategy = tf.distribute.MultiWorkerMirroredStrategy`: another name for the same."""
    return {
        target.id: name
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name) and (name := _dotted(node.value, names))
    }


def _assigned_texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`kind = "dist_sync"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))


def _texts_of(call: ast.Call, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    named = ((keyword.arg or "", keyword.value) for keyword in call.keywords)
    for keyword, given in (*(("", one) for one in call.args), *named):
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield keyword, given.value
        elif isinstance(given, ast.Name) and given.id in texts:
            yield keyword, texts[given.id]


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str:
    """The full name of `a.b.c`; of what is called on a value, the last part; empty: it has none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, names)
        return f"{before}.{node.attr}" if before else node.attr
    return ""
