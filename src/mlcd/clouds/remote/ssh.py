"""The way to a machine by ssh: commands, archives through tar, files by SFTP, all over one connection.

asyncssh lives in a thread of its own; the rest of the runner waits for it, each node in its own thread. The key that a
machine shows at first is kept, and a machine that shows another one later is refused; one that is in a list of known hosts
must show a key of that list.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from mlcd.clouds.remote.base import CommandResult, UnreachableError
from mlcd.clouds.tasks.files import write_atomically
from mlcd.errors import CloudError, MissingExtraError

T = TypeVar("T")

CONNECT_SECONDS = 5.0
LOGIN_SECONDS = 10.0
FILE_SECONDS = 8.0  # to read or write a small file
SLOWEST_BYTES_PER_SECOND = 50_000.0  # a larger one may take as long as that takes
KEEPALIVE_SECONDS = 3


class SshReach:
    """A connection that is made when it is needed, and made again when it broke."""

    def __init__(
        self, host: str, user: str, key: Path, known: Path, base: str, port: int = 22, listed: Path | None = None
    ) -> None:
        self._asyncssh = load_asyncssh()
        self._host, self._port, self._user, self._key, self._known = host, port, user, key, known
        self._listed = listed  # known hosts, as ssh keeps them
        self._connection: Any = None
        self._sftp: Any = None
        self._opening = asyncio.Lock()
        self.base = base

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a command for bash, with the environment of a login."""
        return self._await(self._run(command, stdin), seconds)

    def put(self, archive: Path, folder: str) -> None:
        """Unpack a gzipped tar archive into a folder there."""
        seconds = 60.0 + archive.stat().st_size / SLOWEST_BYTES_PER_SECOND
        where = shlex.quote(folder)
        ran = self._await(self._pipe(f"mkdir -p {where} && tar -xzf - -C {where}", archive), seconds)
        if ran.code:
            raise CloudError(f"{self._host} could not unpack what was sent: {ran.output.strip()[-500:]}")

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        return self._await(self._read(path, offset, most), FILE_SECONDS + most / SLOWEST_BYTES_PER_SECOND)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        self._await(self._write(path, content), FILE_SECONDS)

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file from there to here, and no more than so many bytes of it."""
        self._await(self._fetch(path, target, most), 24 * 3600.0)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection, self._sftp = self._connection, None, None
        if connection is not None:
            _loop().call_soon_threadsafe(connection.abort)

    def _await(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Wait for the other thread; a machine that does not answer in time has its connection dropped."""
        future = asyncio.run_coroutine_threadsafe(_within(work, seconds), _loop())
        try:
            return future.result()
        except (OSError, EOFError, TimeoutError, self._asyncssh.DisconnectError) as error:
            self.close()
            raise UnreachableError(f"{self._host} does not answer: {error or type(error).__name__}") from error
        except self._asyncssh.SFTPError as error:
            if isinstance(error, self._asyncssh.SFTPConnectionLost | self._asyncssh.SFTPNoConnection):
                self.close()
                raise UnreachableError(f"{self._host} went away: {error}") from error
            raise CloudError(f"{self._host}: {error}") from error
        except self._asyncssh.Error as error:
            self.close()
            raise UnreachableError(f"{self._host} does not answer: {error}") from error

    async def _run(self, command: str, stdin: bytes) -> CommandResult:
        connection = await self._connected()
        done = await connection.run(f"bash -lc {shlex.quote(command)}", input=stdin, encoding=None, check=False)
        return _ran(done)

    async def _pipe(self, command: str, source: Path) -> CommandResult:
        connection = await self._connected()
        return _ran(await connection.run(command, stdin=source, encoding=None, check=False))

    async def _read(self, path: str, offset: int, most: int) -> bytes | None:
        sftp = await self._files()
        try:
            async with sftp.open(path, "rb") as file:
                return bytes(await file.read(most, offset))
        except self._asyncssh.SFTPNoSuchFile:
            return None

    async def _write(self, path: str, content: bytes) -> None:
        sftp = await self._files()
        draft = f"{path}.part"
        async with sftp.open(draft, "wb") as file:
            await file.write(content)
        await sftp.posix_rename(draft, path)

    async def _fetch(self, path: str, target: Path, most: int) -> None:
        def stop_at_most(_source: bytes, _target: bytes, copied: int, _size: int) -> None:
            if copied > most:
                raise CloudError(f"{self._host} sent more of '{Path(path).name}' than it has.")

        sftp = await self._files()
        target.unlink(missing_ok=True)  # it might be a link, which would be written through
        await sftp.get(path, str(target), follow_symlinks=True, progress_handler=stop_at_most)

    async def _files(self) -> Any:
        connection = await self._connected()
        if self._sftp is None:
            self._sftp = await connection.start_sftp_client()
        return self._sftp

    async def _connected(self) -> Any:
        async with self._opening:  # several may ask at once
            return self._connection or await self._connect()

    async def _connect(self) -> Any:
        known = self._known.read_text().strip() if self._known.is_file() else ""
        self._connection = await self._asyncssh.connect(
            self._host,
            port=self._port,
            username=self._user,
            client_keys=[str(self._key)],
            known_hosts=self._in_list() or (([self._asyncssh.import_public_key(known)], [], []) if known else None),
            config=None,
            agent_path=None,
            connect_timeout=CONNECT_SECONDS,
            login_timeout=LOGIN_SECONDS,
            keepalive_interval=KEEPALIVE_SECONDS,
            keepalive_count_max=3,
        )
        self._sftp = None
        self._remember(known)
        return self._connection

    def _in_list(self) -> Any:
        """The keys that the list has for the host, of which there may be several: a name may stand for many; None: it has none."""
        if self._listed is None or not self._listed.is_file():
            return None
        keys = self._asyncssh.match_known_hosts(str(self._listed), self._host, "", self._port)
        return keys if any(keys[:3]) else None

    def _remember(self, known: str) -> None:
        if not known:
            self._known.parent.mkdir(parents=True, exist_ok=True)
            key = self._connection.get_server_host_key().export_public_key().decode()
            write_atomically(self._known, key)


async def _within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


def _ran(done: Any) -> CommandResult:
    if done.exit_status is None:
        raise EOFError("it closed the connection before the command had ended")
    code = int(done.exit_status)
    return CommandResult(
        code, (done.stdout or b"").decode(errors="replace") + (done.stderr or b"").decode(errors="replace")
    )


_loops: list[asyncio.AbstractEventLoop] = []
_making = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """The one event loop of asyncssh, in a thread that ends with the process."""
    with _making:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, name="ssh", daemon=True).start()
    return _loops[0]


def load_asyncssh() -> Any:
    """asyncssh, which is an extra."""
    try:
        import asyncssh
    except ImportError as error:
        raise MissingExtraError(
            "Machines elsewhere are reached with asyncssh, which is not installed.", "pip install 'mlcd[ec2]'"
        ) from error
    with contextlib.suppress(AttributeError):
        asyncssh.set_log_level("ERROR")
    return asyncssh


def make_key(private: Path) -> str:
    """The public half of our key; both are made where there are none, the private one for its owner only."""
    asyncssh = load_asyncssh()
    if not private.is_file():
        private.parent.mkdir(parents=True, exist_ok=True)
        key = asyncssh.generate_private_key("ssh-ed25519", comment="mlcd")
        write_private(private, key.export_private_key())
    return str(asyncssh.read_private_key(str(private)).export_public_key().decode()).strip()


def write_private(file: Path, content: bytes) -> None:
    """Write what only its owner may read, whole or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    draft.replace(file)
