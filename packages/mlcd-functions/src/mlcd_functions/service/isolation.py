"""A network of its own for each function, as at Lambda: nobody outside reaches it, and it reaches nobody but through a proxy.

Run by its path as `python isolation.py CHANNEL COMMAND…`: it leaves the computer's network, opens two listeners in its own, hands
them to the service through the channel, and becomes the command. So the service listens inside the function's network (the Runtime
API and the proxy) without being in it. Standard library only: where it runs, `mlcd` is the function's own package.

Root may make such a network, and so may everybody else where the system allows user namespaces.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

LISTENERS = 2  # the Runtime API and the proxy
_NEW_USER = 0x10000000  # CLONE_NEWUSER
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
_OWN = "localhost,127.0.0.1,::1"
_SECONDS = 30.0


@cache
def why_not() -> str:
    """Why functions cannot have networks of their own here; empty: they can."""
    try:
        tried = subprocess.run(
            [sys.executable, __file__], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["no reason given"])[-1]


def command_in_own_network(channel: int, command: list[str]) -> list[str]:
    """What to run instead of the command."""
    return [sys.executable, __file__, str(channel), *command]


def take_listeners(channel: socket.socket) -> list[socket.socket]:
    """The listeners that the new process has opened in its own network; OSError: it could not."""
    channel.settimeout(_SECONDS)
    size = array.array("i").itemsize
    data, extra, _, _ = channel.recvmsg(1, socket.CMSG_LEN(LISTENERS * size))
    handles = array.array("i")
    for level, kind, content in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            handles.frombytes(content[: len(content) - len(content) % size])
    if not data or len(handles) != LISTENERS:
        raise OSError("the function has no network of its own")
    return [socket.socket(fileno=handle) for handle in handles]


def main() -> None:
    """Leave the network; with a channel and a command, go on as the command."""
    _leave_network()
    if len(sys.argv) == 1:
        return
    channel = socket.socket(fileno=int(sys.argv[1]))
    listeners = [_listen() for _ in range(LISTENERS)]
    handles = array.array("i", [listener.fileno() for listener in listeners])
    channel.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)])
    channel.close()
    api, proxy = (f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners)
    os.execvpe(sys.argv[2], sys.argv[2:], {**os.environ, **_variables(api, proxy)})  # noqa: S606


def _variables(api: str, proxy: str) -> dict[str, str]:
    """Where the Runtime API is, and how to leave: HTTP by the usual variables, mlcd's own stores by ours."""
    url = f"http://{proxy}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {
        "AWS_LAMBDA_RUNTIME_API": api,
        "MLCD_PROXY": url,
        **dict.fromkeys(names, url),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), _OWN),
    }


def _leave_network() -> None:
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if user == 0 and libc.unshare(_NEW_NETWORK) == 0:
        _start_loopback()
        return
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace may be made ({os.strerror(number)})")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")  # the same user inside as outside
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _start_loopback()


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, _GET_FLAGS, asked))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.set_inheritable(False)
    return listener


if __name__ == "__main__":
    main()
