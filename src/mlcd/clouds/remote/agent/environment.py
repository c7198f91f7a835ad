"""Where a node's programs run on a machine: the environment of a login, with what is missing there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.environment import node_environment
from mlcd.clouds.tasks.processes import MARKER

_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def agent_environment(root: Path, spec: dict[str, Any]) -> dict[str, str]:
    """What every process of the node gets; the platform's own variables go on top."""
    own_alone = ("MLCD_", "SSH_", "PYTHONPATH")
    login = {name: value for name, value in os.environ.items() if not name.startswith(own_alone)}
    path = _path(root, spec["path"], login.get("PATH", os.defpath))
    return node_environment(
        {**login, **interface_of(spec["address"]), "PATH": path},
        {**spec["env"], MARKER: str(root)},
        [str(root / "bundle")],
        copy=root / "copy",
        progress=root / "progress",
        checkpoints=root / "checkpoints",
        outputs=root / "outputs",
    )


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
