"""The zip that every function runs: the handler with mlcd's worker and synchronisation, and nothing else of mlcd.

On AWS a zip needs NumPy and obstore beside it (libraries.py), since the runtime brings neither; a function that trains with a
framework is too large for a zip and needs an image, named in the settings.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mlcd import errors
from mlcd.clouds.tasks.node import NODE_FILES
from mlcd_functions.libraries import library_files

HANDLER = "mlcd_functions.handler.handle"
_MLCD = (
    *NODE_FILES,
    "__init__.py",
    "worker/**/*.py",
    "sync/**/*.py",
    "clouds/progress_files.py",
)
_FUNCTIONS = (
    "__init__.py",
    "handler.py",
    "counted_objects.py",
    "reporter.py",
    "messages.py",
    "program.py",
    "workspace.py",
    "objects/*.py",
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes


@cache
def handler_package(wheels: tuple[Path, ...] = ()) -> bytes:
    """The zip, with what these wheels hold; the same mlcd and the same wheels give the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted([*_own(), *(each for wheel in wheels for each in library_files(wheel))]):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    return data.getvalue()


def _own() -> Iterator[tuple[str, bytes]]:
    for name, base, patterns in (
        ("mlcd", Path(errors.__file__).resolve().parent, _MLCD),
        ("mlcd_functions", Path(__file__).resolve().parent, _FUNCTIONS),
    ):
        for path in (path for pattern in patterns for path in base.glob(pattern)):
            yield f"{name}/{path.relative_to(base).as_posix()}", path.read_bytes()
