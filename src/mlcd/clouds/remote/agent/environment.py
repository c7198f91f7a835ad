"""The environment that a node's processes get: that of a login, where things are, the user's, and the secrets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.processes import MARKER

_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def node_environment(root: Path, spec: dict[str, Any]) -> dict[str, str]:
    """What every process of the node gets; the platform's own variables go on top."""
    login = {name: value for name, value in os.environ.items() if not name.startswith(("MLCD_", "SSH_"))}
    paths = [str(root / "bundle"), spec["env"].get("PYTHONPATH", "")]
    return {
        **login,
        **interface_of(spec["address"]),
        "PATH": _path(root, spec["path"], login.get("PATH", os.defpath)),
        **spec["env"],
        "PYTHONPATH": os.pathsep.join(part for part in paths if part),
        "MLCD_PROGRESS_DIR": str(root / "progress"),
        "MLCD_CHECKPOINT_DIR": str(root / "checkpoints"),
        "MLCD_OUTPUT_DIR": str(root / "outputs"),
        "MLCD_WORKDIR": str(root / "copy"),
        MARKER: str(root),
    }


def _path(root: Path, own: str, login: str) -> str:
    """Where programs are found; `python` is the Python that mlcd runs on where the machine knows only `python3`."""
    path = os.pathsep.join(part for part in (own, login) if part)
    if shutil.which("python", path=path) is None:
        (root / "bin").mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (root / "bin" / "python").symlink_to(sys.executable)
        path = os.pathsep.join((path, str(root / "bin")))
    return path


def interface_of(address: str) -> dict[str, str]:
    """The network interface that has this address, for gloo and nccl, which would go by the host's name."""
    with suppress(OSError, subprocess.SubprocessError):
        text = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, timeout=5).stdout
        for fields in map(str.split, text.splitlines()):
            if len(fields) > 3 and fields[3].split("/")[0] == address:
                return dict.fromkeys(_INTERFACES, fields[1])
    return {}
