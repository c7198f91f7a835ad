"""Names to plug-ins. Built-ins register through the same entry points as outsiders; imported when used.

Several clouds are named with a plus, as in `local+functions`; the plug-in `together` makes one of them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mlcd.errors import MissingExtraError, MlcdError, NotFoundError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TOGETHER = "together"
KINDS = {"clouds": "cloud", "platforms": "platform", "searchers": "search strategy"}
# What distributions of this project bring that are not installed with mlcd, by the extra that installs them.
OPTIONAL = {
    "clouds": {"functions": "functions"},
    "searchers": dict.fromkeys(("convbo", "bo-imprd", "cherrypick", "cp-imprd", "paleo", "q-learning"), "bench"),
}


def names(group: str) -> list[str]:
    """What is registered in a group: 'clouds', 'platforms' or 'searchers'."""
    return sorted(_points(group).keys() - {TOGETHER})


def load(group: str, name: str) -> Any:
    """The object that a name stands for."""
    if group == "clouds" and "+" in name:
        return _load_together([part.strip() for part in name.split("+")])
    if name != TOGETHER and name in _points(group):
        return _imported(group, _points(group)[name])
    refuse_missing(group, name)
    meant = cloud_name(name) if group == "clouds" else name
    hint = f"Did you mean '{meant}'?" if meant != name else did_you_mean(name, names(group))
    raise NotFoundError(f"No {KINDS.get(group, group)} is called '{name}'.", hint)


def loadable(group: str) -> dict[str, Any]:
    """All plug-ins of a group that can be imported, by name: a broken one spoils no other."""
    found = {}
    for name in names(group):
        with suppress(MissingExtraError):
            found[name] = load(group, name)
    return found


def refuse_missing(group: str, name: str) -> None:
    """Say how to install what a distribution of this project brings, where that is not installed."""
    extra = OPTIONAL.get(group, {}).get(name)
    if extra and name not in _points(group):
        raise not_installed(f"The {KINDS[group]} '{name}'", extra)


def not_installed(what: str, extra: str) -> MissingExtraError:
    """That something is in a distribution of this project that is not installed, with the line that installs it."""
    return MissingExtraError(
        f"{what} is in a distribution of its own, which is not installed.",
        f"pip install 'mlcd[{extra}]', or in a clone of the repository: "
        f"pip install -e '.[{extra}]' -e packages/mlcd-{extra}",
    )


def cloud_name(name: str) -> str:
    """The registered name of a cloud that goes by other names, too: SkyPilot's `aws` is `ec2`; else the name itself."""
    if name in names("clouds"):
        return name
    plugins = loadable("clouds")
    aliases = {alias: each for each, plugin in plugins.items() for alias in getattr(plugin, "aliases", ())}
    return aliases.get(name, name)


def _imported(group: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except MlcdError:  # it says by itself what to do
        raise
    except Exception as error:  # whatever a plug-in does when it is imported, it must not take the others with it
        raise MissingExtraError(
            f"The {KINDS.get(group, group)} '{point.name}' cannot be imported: {error}.",
            f"Install the package {point.dist.name if point.dist else point.module} again, or remove it.",
        ) from error


def _load_together(parts: list[str]) -> Any:
    for part in parts:
        load("clouds", part)
    return partial(_points("clouds")[TOGETHER].load(), parts)


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    """Entry points by name; finding them reads the metadata of every installed package."""
    from importlib.metadata import entry_points  # imports much, and runners of tasks need it late or never

    return {point.name: point for point in entry_points(group=f"mlcd.{group}")}
