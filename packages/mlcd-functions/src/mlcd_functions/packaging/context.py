"""What a container engine builds the image from, in a folder: Dockerfile, locked requirements, and mlcd's handler.

The base is AWS's own for the functions' Python, which has the runtime's client. On any other the client is installed, and is what
the container starts.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from pathlib import Path

from mlcd.errors import UserError
from mlcd_functions.libraries import python_of
from mlcd_functions.package import HANDLER, handler_package

CLIENT = "awslambdaric>=3.0"
AWS_BASE = "public.ecr.aws/lambda/python"
_ROOT = "/var/task"  # LAMBDA_TASK_ROOT
_OURS_OF_A_LAYER = frozenset({"layer.zip"})
_OURS = _OURS_OF_A_LAYER | {"Dockerfile", "requirements.lock", "handler"}
_LOCKED = f"RUN python -m pip install --no-cache-dir --require-hashes -r {_ROOT}/requirements.lock"
_DOCKERFILE = """\
FROM {base}
COPY requirements.lock {root}/
{locked}
COPY handler/ {root}/
WORKDIR {root}
{entry}CMD ["{handler}"]
"""
_ENTRY = """\
ENV LAMBDA_TASK_ROOT={root} PYTHONPATH={root}
ENTRYPOINT ["python", "-m", "awslambdaric"]
"""


def default_base(runtime: str) -> str:
    """AWS's image for this runtime."""
    return f"{AWS_BASE}:{python_of(runtime)}"


def has_client(base: str) -> bool:
    """Whether the base brings the runtime's client, and starts it."""
    return base.startswith(f"{AWS_BASE}:")


def refuse_file(folder: Path) -> None:
    """Refuse a file where a folder belongs."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file.", "Name a folder.")


def refuse_others(folder: Path) -> None:
    """Refuse a folder that has more than what was made here before: it would be lost, and all of it be sent to the engine."""
    refuse_file(folder)
    ours = _OURS if _is_ours(folder / "Dockerfile") else _OURS_OF_A_LAYER
    others = sorted({file.name for file in folder.iterdir()} - ours) if folder.is_dir() else []
    if others:
        raise UserError(
            f"{folder} is not empty: it has {others[0]}.",
            "What an image is built from is written in the place of all that is in its folder: name an empty one.",
        )


def _is_ours(dockerfile: Path) -> bool:
    """Whether it was made here, and so what stands beside it: others have a file of that name, too."""
    return dockerfile.is_file() and _LOCKED in dockerfile.read_text(encoding="utf-8", errors="replace")


def write_context(folder: Path, base: str, lock: str) -> str:
    """Write it in the place of what was made before; gives the digest of all that is in it."""
    refuse_others(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    entry = "" if has_client(base) else _ENTRY.format(root=_ROOT)
    dockerfile = _DOCKERFILE.format(base=base, root=_ROOT, locked=_LOCKED, entry=entry, handler=HANDLER)
    (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (folder / "requirements.lock").write_text(lock, encoding="utf-8")
    handler = handler_package()
    with zipfile.ZipFile(io.BytesIO(handler)) as package:
        package.extractall(folder / "handler")
    return hashlib.sha256(b"\0".join((dockerfile.encode(), lock.encode(), handler))).hexdigest()
