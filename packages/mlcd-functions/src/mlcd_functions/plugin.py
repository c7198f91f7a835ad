"""What the entry point of the cloud functions names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd_functions.settings import FunctionsSettings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.core.view import Finding
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd_functions.cloud import FunctionsCloud

    return FunctionsCloud(settings)


def _check(settings: Settings) -> Iterable[Finding]:
    from mlcd_functions.checks import check_functions
    from mlcd_functions.stores import rents_store

    ours = settings.of(FunctionsSettings)
    yield from check_functions(ours, settings.home.absolute() / "functions")
    if rents_store(ours):
        from mlcd_functions.rented.checks import check_store

        yield from check_store(settings, ours)


open_cloud = CloudPlugin(
    "functions",
    _open,
    settings=FunctionsSettings,
    check=_check,
    install="pip install 'mlcd[functions]'",
    address=lambda settings: settings.of(FunctionsSettings).endpoint or "local",
    page="how-to/functions.md",
)
