"""The zip that every function runs: the handler with mlcd's worker and synchronisation, and nothing else of mlcd.

On AWS a zip needs NumPy and obstore beside it (`with_libraries`), since the runtime brings neither; a function that
trains with a framework is too large for a zip and needs an image, named in the settings.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mlcd.errors import MissingExtraError

HANDLER = "mlcd.clouds.functions.handler.handle"
_MODULES = (
    "__init__.py",
    "errors.py",
    "worker/*.py",
    "sync/*.py",
    "core/__init__.py",
    "core/progress.py",
    "clouds/__init__.py",
    "clouds/checkpoints.py",
    "clouds/progress_files.py",
    "clouds/tasks/__init__.py",
    "clouds/tasks/processes.py",
    "clouds/tasks/copies.py",
    "clouds/tasks/outputs.py",
    "clouds/tasks/snapshots.py",
    "clouds/functions/__init__.py",
    "clouds/functions/handler.py",
    "clouds/functions/courier.py",
    "clouds/functions/orders.py",
    "clouds/functions/program.py",
    "clouds/functions/workspace.py",
)
_LIBRARIES = ("numpy", "numpy.libs", "obstore")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes
_SKIPPED = {"__pycache__", "tests"}


@cache
def handler_package(with_libraries: bool = False) -> bytes:
    """The zip; the same mlcd gives the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted([*_own(), *(_libraries() if with_libraries else ())]):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o100644 << 16
            archive.writestr(info, path.read_bytes())
    return data.getvalue()


def _own() -> Iterator[tuple[str, Path]]:
    base = Path(__file__).resolve().parents[2]
    for pattern in _MODULES:
        for path in base.glob(pattern):
            yield f"mlcd/{path.relative_to(base).as_posix()}", path


def _libraries() -> Iterator[tuple[str, Path]]:
    """The compiled libraries as they are installed here, which is for Linux on x86 as Lambda is."""
    found = importlib.util.find_spec("numpy")
    if found is None or found.origin is None or importlib.util.find_spec("obstore") is None:
        raise MissingExtraError("Functions need NumPy and obstore.", "pip install 'mlcd[functions]'")
    site = Path(found.origin).parents[1]
    for library in _LIBRARIES:
        for path in (site / library).rglob("*"):
            if path.is_file() and not _SKIPPED & set(path.relative_to(site).parts):
                yield path.relative_to(site).as_posix(), path
