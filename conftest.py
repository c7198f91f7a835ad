"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cli.fake_client import Command, Done

ROOT = Path(__file__).resolve().parent
SHARED = ROOT.parent / "shared"
ONE_CLUSTER = ROOT / "tests/clouds/ray"  # a Ray cluster takes long to start: all tests of this folder share one


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the tests that train or kill processes evenly over the run, each for whichever worker is free.

    Those that share what their file has set up stay together.
    """
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = _unit(item)
        if name != item.nodeid:
            item.add_marker(pytest.mark.xdist_group(name))
        units.setdefault(name, []).append(item)
    slow = [unit for unit in units.values() if unit[0].get_closest_marker("slow")]
    others = [unit for unit in units.values() if not unit[0].get_closest_marker("slow")]
    places = [((number + 0.5) / len(kind), unit) for kind in (slow, others) for number, unit in enumerate(kind)]
    items[:] = [item for _, unit in sorted(places, key=lambda place: place[0]) for item in unit]


def _unit(item: pytest.Item) -> str:
    """What is run by one worker in one go."""
    if ONE_CLUSTER in item.path.parents:
        return "clouds/ray"
    return str(item.path.relative_to(ROOT).with_suffix("")) if _shares_a_set_up(item) else item.nodeid


def _shares_a_set_up(item: pytest.Item) -> bool:
    info = getattr(item, "_fixtureinfo", None)
    known = info.name2fixturedefs.values() if info is not None else ()
    return any(found.scope in ("module", "class", "package") for defs in known for found in defs)


@pytest.fixture(autouse=True)
def own_worker_session() -> Iterator[None]:
    """What a test trains in this process is counted in a session of its own."""
    from mlcd.worker import session

    before, session._session = session._session, None
    yield
    session._session = before


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of recorded deployments beside the checkout; tests that need it are skipped without it."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip("the recorded traces (../shared/traces) are not on this machine")
    return folder


@pytest.fixture
def mlcd(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `mlcd` with these arguments on this client, as a user does but not on a terminal."""
    from cli.fake_client import Done
    from mlcd.cli.main import main

    def command(*arguments: str, client: Any = None) -> Done:
        code = main(arguments, client)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return command
