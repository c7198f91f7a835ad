"""What an emulation needs of the computer: Linux, root, a few tools and the extra."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

from mlcd.errors import MissingExtraError, UserError
from mlcd_emulate.system import SYSTEM_PATH

_TOOLS = {  # and the package of Debian and Ubuntu that has them
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "bash": "bash",
}
_PACKAGES = ("moto", "werkzeug", "boto3", "flask", "flask_cors")


def require_all() -> None:
    """Say what is missing, and the line that gets it."""
    require_root()
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=SYSTEM_PATH)]
    if missing:
        packages = " ".join(sorted({_TOOLS[tool] for tool in missing}))
        raise UserError(
            f"The emulated EC2 needs {', '.join(missing)}, not found here.",
            f"apt-get install --no-install-recommends {packages}",
        )
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(
                f"The emulated EC2 needs the package {package}, which is not installed.",
                "pip install 'mlcd[emulate]'",
            )


def require_root() -> None:
    """Namespaces, control groups and mounts are root's on Linux."""
    if sys.platform != "linux":
        raise UserError("The emulated EC2 needs Linux: its hosts are namespaces.", "Run it in a virtual machine.")
    if os.geteuid() != 0:
        raise UserError("The emulated EC2 needs root: its hosts are namespaces.", "sudo mlcd emulate …")


def why_not() -> str:
    """Why no emulation can run here; empty: one can."""
    try:
        require_all()
    except UserError as error:
        return f"{error.message} {error.hint}"
    return ""
