"""The compiled libraries that a zip at AWS needs, as wheels for the runtime's own Python and system.

They are downloaded once, whatever Python runs mlcd. Lambda's runtimes since python3.12 are Amazon Linux 2023 with glibc 2.34;
those before are Amazon Linux 2 with glibc 2.26, for which NumPy has no wheels any more.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mlcd.errors import CloudError, UserError

LIBRARIES = ("numpy>=1.26", "obstore>=0.4")
GLIBC_MINOR = 34  # 2.34
_PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC_MINOR, 16, -1))
_OLDEST = (3, 12)
_SECONDS = 600.0


def python_of(runtime: str) -> str:
    """The version of Python in a runtime's name: python3.13 → 3.13."""
    found = re.fullmatch(r"python(\d+)\.(\d+)", runtime)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        raise UserError(
            f"functions.runtime: '{runtime}' cannot run mlcd's functions.",
            "Use python3.12 or newer: the runtimes before have a system that is too old for NumPy.",
        )
    return f"{found[1]}.{found[2]}"


def wheels_for(runtime: str, folder: Path) -> tuple[Path, ...]:
    """The wheels, from the folder or downloaded into it; all of them or none."""
    python_of(runtime)
    ready = folder / runtime
    if not ready.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder, prefix=f".{runtime}-"))
        try:
            _download(runtime, draft)
            _place(draft, ready)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return tuple(sorted(ready.glob("*.whl")))


def library_files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """What a wheel holds, without tests and what only type checkers read."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = Path(entry.filename)
            if not entry.is_dir() and path.suffix != ".pyi" and "tests" not in path.parts:
                yield entry.filename, archive.read(entry)


def pip_target(runtime: str) -> list[str]:
    """What tells pip to take wheels for a runtime, whatever Python and system it runs on itself."""
    platforms = [part for platform in _PLATFORMS for part in ("--platform", platform)]
    return ["--only-binary=:all:", "--implementation", "cp", "--python-version", python_of(runtime), *platforms]


def _download(runtime: str, into: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    asked = [*pip_target(runtime), "--dest", str(into), *LIBRARIES]
    try:
        done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise CloudError("NumPy and obstore for the functions could not be downloaded in time.") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise CloudError(
            f"NumPy and obstore for the functions cannot be downloaded: {(lines or ['no reason given'])[-1]}",
            "Is pip installed beside mlcd, and is the package index there? An image needs no download: functions.image.",
        )


def _place(draft: Path, ready: Path) -> None:
    """Make it the one that counts, unless another process was faster."""
    try:
        draft.rename(ready)
    except OSError:
        if not ready.is_dir():
            raise
