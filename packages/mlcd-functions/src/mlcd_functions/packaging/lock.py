"""What pip would install for the functions' Python and system: names, versions, hashes and sizes, before any is downloaded.

Only wheels are taken, since nothing can be compiled for another system here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlcd.errors import CloudError, UserError
from mlcd_functions.libraries import LIBRARIES, pip_target
from mlcd_functions.packaging.limits import Locked

_SECONDS = 900.0
_SIZE_SECONDS = 20.0
_INDEX_OPTION = re.compile(r"\s*(-i|-f|--index-url|--extra-index-url|--find-links|--pre)\b")


def resolve(requirements: Path | None, runtime: str, more: Sequence[str] = ()) -> tuple[Locked, ...]:
    """What the file asks for, with what mlcd needs in a function, and all that these need."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _pip(
            _asked(
                requirements, runtime, (*LIBRARIES, *more), Path(folder, "none"), ["--dry-run", "--report", str(report)]
            )
        )
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    with ThreadPoolExecutor(8) as pool:
        return tuple(sorted(pool.map(_locked, found), key=lambda package: package.name.lower()))


def unpack(lock: str, runtime: str, into: Path) -> int:
    """Install exactly what is locked into a folder, without tests and what only type checkers read; the bytes that it has."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.lock")
        file.write_text(lock, encoding="utf-8")
        _pip(_asked(file, runtime, (), into, ["--no-deps", "--require-hashes", "--no-compile"]))
    for path in sorted(into.rglob("*"), reverse=True):
        if path.is_dir() and path.name in ("tests", "__pycache__") and path.parent != into:
            shutil.rmtree(path)
        elif path.suffix == ".pyi":
            path.unlink()
    shutil.rmtree(into / "bin", ignore_errors=True)  # commands with the path of this computer's Python
    return sum(path.stat().st_size for path in into.rglob("*") if path.is_file())


def lock_text(packages: Iterable[Locked], requirements: Path | None) -> str:
    """The lock as pip reads it, with where the file says that packages are found."""
    lines = [f"{package.name}=={package.version} --hash=sha256:{package.sha256}" for package in packages]
    return "\n".join([*_index_options(requirements), *lines, ""])


def _index_options(requirements: Path | None) -> list[str]:
    text = requirements.read_text(encoding="utf-8") if requirements is not None else ""
    options = [line.strip() for line in text.splitlines() if _INDEX_OPTION.match(line)]
    for option in options:
        if "@" in urlsplit(option.replace("=", " ", 1).split()[-1]).netloc:
            raise UserError(
                "The requirements name an index with a password, which everybody would find in the image.",
                "Give it to pip in a file of yours (`pip config`) and to the build in its own way.",
            )
    return options


def _locked(found: dict[str, Any]) -> Locked:
    facts, download = found["metadata"], found["download_info"]
    digest = download.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    name, url = str(facts["name"]), str(download["url"])
    if found.get("is_direct") or not digest:
        raise UserError(
            f"{name} comes from {url.partition('?')[0]} and not from a package index.",
            "Only what an index has is installed into a layer or an image.",
        )
    return Locked(name, str(facts["version"]), url, digest, _size(url))


def _size(url: str) -> int:
    """Of the file, as its server says; 0: it does not say."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).stat().st_size
    try:
        asked = urllib.request.Request(url, method="HEAD")  # noqa: S310  # an address of pip's own
        with urllib.request.urlopen(asked, timeout=_SIZE_SECONDS) as answer:  # noqa: S310
            return int(answer.headers.get("Content-Length") or 0)
    except (OSError, ValueError):
        return 0


def _asked(requirements: Path | None, runtime: str, more: Sequence[str], into: Path, how: list[str]) -> list[str]:
    files = ["-r", str(requirements)] if requirements is not None else []
    return [
        "install",
        "--quiet",
        "--ignore-installed",
        *pip_target(runtime),
        "--target",
        str(into),
        *how,
        *files,
        *more,
    ]


def _pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise CloudError("pip did not find the packages in time.", "Is the package index there?") from error
    if done.returncode:
        told = [line.partition("ERROR: ")[2] for line in done.stderr.splitlines() if "ERROR: " in line]
        raise UserError(
            f"pip cannot have these packages for the functions: {(told or ['no reason given'])[0]}",
            "Each must have a wheel for the Python of functions.runtime on Linux, x86_64.",
        )
