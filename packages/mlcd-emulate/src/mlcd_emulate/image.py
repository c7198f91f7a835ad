"""The files that emulated hosts have besides this computer's own: users, ssh, and stand-ins for what needs systemd.

A host's root is this computer's, copy on write, below two folders that are written here: the image of all hosts
of an emulation, and the seed of one. What a machine of its own would not have is hidden: /tmp, mlcd's home, the
AWS credentials and ssh keys of root.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mlcd import errors
from mlcd_emulate.system import SYSTEM_PATH

DEFAULT_USER = "ubuntu"
USERS = {DEFAULT_USER: 1000, "ec2-user": 1001}  # and their user ids, as on EC2's images
_SCRIPTS = Path(__file__).parent / "files"
_HIDDEN = ("/tmp", "/var/tmp", "/var/log", "/var/lib/cloud", "/root/.aws", "/root/.ssh")  # noqa: S108
_UNREAL = {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "securityfs", "debugfs", "tracefs",
           "bpf", "pstore", "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "nsfs", "rpc_pipefs", "efivarfs"}  # fmt: skip
_ELSEWHERE = ("/proc", "/sys", "/dev", "/run")
_START_FILES = (".bashrc", ".bash_profile", ".profile")  # root's here may do anything; hosts have plain ones
INIT = _SCRIPTS / "host_init.sh"
_SSHD = """\
AuthorizedKeysFile /etc/ssh/authorized_keys .ssh/authorized_keys
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 200
Subsystem sftp internal-sftp
SetEnv OMP_NUM_THREADS=1
"""


def write_image(image: Path, needed: Sequence[Path] = ()) -> None:
    """Write what all hosts of an emulation have; needed: folders that every user is to reach."""
    etc = _folder(image / "etc")
    _write(_folder(etc / "ssh") / "sshd_config", _SSHD)
    _write_users(etc)
    for user, uid in USERS.items():
        os.chown(_folder(image / "home" / user), uid, uid)
    for start_file in _START_FILES:
        _write(_folder(image / "root") / start_file, "")
    shutil.copystat("/root", image / "root")
    for folder in needed:
        _open_way(image, folder)
    sbin = _folder(image / "usr" / "sbin")
    for name in ("shutdown", "poweroff", "halt", "reboot"):
        _copy("shutdown.sh", sbin / name)
    programs = _folder(image / "usr" / "bin")
    _copy("systemctl.sh", programs / "systemctl")
    _copy("cloud_init.sh", programs / "cloud-init")
    if not shutil.which("sudo", path=SYSTEM_PATH):
        _copy("sudo.sh", programs / "sudo")
    _copy("second_stage.sh", _folder(image / "usr" / "lib" / "mlcd-emulate") / "second_stage")


def write_seed(seed: Path, address: IPv4Address, keys: Sequence[str]) -> None:
    """Write what one host has: its name and its neighbours', and who may enter."""
    etc = _folder(seed / "etc")
    _write(etc / "hostname", f"{host_name(address)}\n")
    neighbours = IPv4Network(f"{address}/24", strict=False).hosts()  # stands for EC2's name server
    names = (f"{each} {host_name(each)}.ec2.internal {host_name(each)}\n" for each in neighbours)
    _write(etc / "hosts", "127.0.0.1 localhost\n" + "".join(names))
    _write(etc / "resolv.conf", "")
    _write(_folder(etc / "ssh") / "authorized_keys", "".join(f"{key.strip()}\n" for key in keys))


def host_name(address: IPv4Address) -> str:
    """As EC2 names its machines."""
    return f"ip-{str(address).replace('.', '-')}"


def python_needs() -> list[Path]:
    """What Python and mlcd are made of: hosts have the software of this computer."""
    sources = Path(errors.__file__).parents[1]
    return list(dict.fromkeys(Path(each) for each in (sys.base_prefix, sys.prefix, sources)))


def folders_to_show(table: str, hidden: Sequence[Path], needed: Sequence[Path]) -> list[str]:
    """What the root alone does not show, or would not hide: 'show FOLDER' and 'hide FOLDER', in order.

    table: /proc/self/mountinfo; needed: what hosts must see though it may lie in a hidden folder, such as Python.
    """
    hides = [*_HIDDEN, *(str(each) for each in hidden)]
    shows = [folder for folder in _mounts(table) if not _below(folder, hides)]
    again = [str(each) for each in needed if _below(str(each), hides)]
    return [
        *(f"show {each}" for each in shows),
        *(f"hide {each}" for each in hides),
        *(f"show {each}" for each in again),
    ]


def _mounts(table: str) -> list[str]:
    """Folders that are file systems of their own, parents first."""
    found = set()
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        folder, kind = before.split()[4], after.split()[0]
        if folder != "/" and kind not in _UNREAL and not _below(folder, _ELSEWHERE) and Path(folder).is_dir():
            found.add(folder)
    return sorted(found)


def _open_way(image: Path, folder: Path) -> None:
    """Let everyone pass through the folders above: a Python below /root serves the other users too."""
    for parent in reversed(folder.parents):
        status = parent.stat()
        if not status.st_mode & stat.S_IXOTH:
            passage = _folder(image / parent.relative_to("/"))
            passage.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)
            os.chown(passage, status.st_uid, status.st_gid)


def _write_users(etc: Path) -> None:
    has_sudo = shutil.which("sudo", path=SYSTEM_PATH) is not None
    accounts = [
        _without(Path("/etc/passwd")),
        *(f"{u}:x:{n}:{n}::/home/{u}:/bin/bash" for u, n in USERS.items()),
    ]
    shadow = [
        f"root:{'*' if has_sudo else ''}:19000:0:99999:7:::",
        *(f"{user}:*:19000:0:99999:7:::" for user in USERS),
    ]
    groups = [_without(Path("/etc/group")), *(f"{user}:x:{uid}:" for user, uid in USERS.items())]
    _write(etc / "passwd", "\n".join(accounts) + "\n")
    _write(etc / "group", "\n".join(groups) + "\n")
    _write(etc / "shadow", "\n".join(shadow) + "\n", mode=0o640)
    if has_sudo:
        rules = "".join(f"{user} ALL=(ALL) NOPASSWD:ALL\n" for user in USERS)
        _write(_folder(etc / "sudoers.d") / "90-cloud-init-users", rules, mode=0o440)


def _without(file: Path) -> str:
    """The lines of a file of accounts or groups without those whose name or number we use."""
    numbers = {str(uid) for uid in USERS.values()}
    lines = (line for line in file.read_text().splitlines() if line)
    return "\n".join(line for line in lines if line.split(":")[0] not in USERS and line.split(":")[2] not in numbers)


def _folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _copy(script: str, target: Path) -> None:
    _write(target, (_SCRIPTS / script).read_text(), mode=0o755)


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.write_text(text)
    file.chmod(mode)


def _below(folder: str, parents: Sequence[str]) -> bool:
    return any(folder == parent or folder.startswith(parent + "/") for parent in parents)
