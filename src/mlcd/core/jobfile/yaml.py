"""YAML text to plain data that remembers on which line each key was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path = tuple[str | int, ...]  # of a value: ("resources", "any_of", 0, "cpus")

AS_WRITTEN = ("envs", "secrets")  # 0.10 and 1e-4 reach the program as they were typed
_MOST_NODES = 20_000  # aliases of aliases can blow up a small file
_TAG = "tag:yaml.org,2002:"
_KNOWN_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge")}


@dataclass(frozen=True)
class Problem:
    """Something wrong with the job, and where."""

    message: str
    path: Path = ()
    line: int | None = None


@dataclass
class Document:
    """The data of a file, the line of each value, and what could not be read."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_yaml(text: str) -> Document:
    """The document in a text; what is wrong with it is in its problems."""
    try:
        root = YAML(typ="safe", pure=True).compose(text)
        nodes = _count(root, ()) if root is not None else 0
    except MarkedYAMLError as error:
        return Document(problems=[_syntax_problem(error)])
    except (YAMLError, ValueError, OverflowError) as error:  # a character or an escape that does not exist
        return Document(problems=[Problem(f"this is not YAML: {_first_line(error)}")])
    except RecursionError:
        return Document(problems=[Problem("the values are nested too deeply")])
    if root is None or nodes > _MOST_NODES:
        return Document(problems=[Problem("the file is empty" if root is None else "the file holds too many values")])
    return _read_root(root)


def _read_root(root: Node) -> Document:
    document = Document()
    if isinstance(root, MappingNode):
        document.data = _Reader(document).mapping(root, ())
    elif isinstance(root, ScalarNode) and root.tag == _TAG + "null":
        document.problems.append(Problem("the file is empty"))
    else:
        document.problems.append(Problem("a job file is a list of 'key: value' lines", line=_line(root)))
    return document


@dataclass(frozen=True)
class _Reader:
    """Turns nodes into values and notes lines and problems in the document."""

    document: Document

    def value(self, node: Node, path: Path) -> Any:
        self.document.lines.setdefault(path, _line(node))
        if node.tag not in _KNOWN_TAGS:
            self._complain(f"the tag '{str(node.tag)[:60]}' is not understood", node, path)
            return None
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, number)) for number, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        words = self._text(node, path)
        return _as_written(str(node.tag), words) if path[0] in AS_WRITTEN else self._scalar(node, words, path)

    def mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                merged |= self._merged(value, path)
            elif not isinstance(key, ScalarNode):
                self._complain("a key must be a word", key, path)
            else:
                self._entry(self._text(key, path), key, value, path, values)
        return {**merged, **values}

    def _entry(self, name: str, key: Node, value: Node, path: Path, values: dict[str, Any]) -> None:
        if name in values:
            self._complain(f"the key '{name[:60]}' is here a second time", key, path)
            return
        self.document.lines[(*path, name)] = _line(key)
        values[name] = self.value(value, (*path, name))

    def _merged(self, node: Node, path: Path) -> dict[str, Any]:
        """What '<<: *anchor' brings in; of several the first wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        values: dict[str, Any] = {}
        for source in sources:
            if isinstance(source, MappingNode):
                values = {**self.mapping(source, path), **values}
            else:
                self._complain("'<<' takes a mapping", node, path)
        return values

    def _scalar(self, node: ScalarNode, words: str, path: Path) -> Any:
        try:
            return _scalar(str(node.tag), words)
        except ValueError:
            self._complain(f"'{words[:60]}' is not a number", node, path)
            return None

    def _text(self, node: ScalarNode, path: Path) -> str:
        """Its text; two escapes that JSON writes for one character become that character."""
        try:
            return str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._complain("it holds half a character", node, path)
            return "?"

    def _complain(self, message: str, node: Node, path: Path) -> None:
        self.document.problems.append(Problem(message, path, _line(node)))


def _scalar(tag: str, text: str) -> Any:
    kind = tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on", "y")
    if kind == "int":
        return _int(text.replace("_", ""))
    if kind == "float":
        return float(re.sub(r"\.(inf|nan)$", r"\1", text.replace("_", "").lower()))
    return text  # a moment too: the zone is part of what was written


def _int(text: str) -> int:
    if re.fullmatch(r"[-+]?\d{1,4000}", text):
        return int(text)  # decimal even with leading zeros
    return int(text[:4000], 0)


def _as_written(tag: str, text: str) -> str | None:
    if tag == _TAG + "null":
        return None
    # True and False as SkyPilot hands them on.
    return str(_scalar(tag, text)) if tag == _TAG + "bool" else text


def _count(node: Node, above: tuple[Node, ...]) -> int:
    """How many values the node stands for once its aliases are written out; stops where that is too many."""
    if any(node is other for other in above):
        return _MOST_NODES + 1  # an alias of itself never ends
    children = [child for pair in node.value for child in pair] if isinstance(node, MappingNode) else node.value
    total = 1
    for child in children if not isinstance(node, ScalarNode) else ():
        total += _count(child, (*above, node))
        if total > _MOST_NODES:
            break
    return total


def _syntax_problem(error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it cannot be read"
    if "single document" in str(error.context):
        problem = "a job file holds one document; '---' begins another"
    return Problem(f"this is not YAML: {problem}", line=mark.line + 1 if mark else None)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
