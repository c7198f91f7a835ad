"""What of a source file needs a younger Python than 3.9, which machines elsewhere may have: its syntax, names and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 9)
_NAMES = {  # of the standard library since 3.10
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "member", "nonmember"},
    "itertools": {"pairwise", "batched"},
    "types": {"NoneType", "UnionType"},
    "typing": {
        "Concatenate",
        "Never",
        "ParamSpec",
        "Self",
        "TypeAlias",
        "TypeGuard",
        "Unpack",
        "assert_never",
        "override",
    },
}
_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}


def too_young(source: Path) -> list[str]:
    """Each with its line; syntax that is too young raises SyntaxError."""
    tree = ast.parse(source.read_text(), feature_version=OLDEST)
    return [f"{source.name}:{line}: {what}" for line, what in _found(tree)]


def _found(tree: ast.AST) -> Iterator[tuple[int, str]]:
    typing_only = {id(each) for node in ast.walk(tree) if _is_for_types(node) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing_only:
            young = _NAMES.get(node.module or "", set()) & {each.name for each in node.names}
            yield from ((node.lineno, f"{node.module}.{name}") for name in sorted(young))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _NAMES.get(node.value.id, set()):
                yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            young = _ARGUMENTS.get(node.func.id, set()) & {each.arg for each in node.keywords}
            yield from ((node.lineno, f"{node.func.id}({name}=…)") for name in sorted(young))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
