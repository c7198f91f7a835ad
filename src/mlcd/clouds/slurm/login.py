"""The way to the login node: this computer, or one that is reached by ssh."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from mlcd.clouds.remote.base import CommandResult, Reach, UnreachableError
from mlcd.clouds.remote.ssh import SshReach
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.errors import CloudError

COPY_SECONDS = 3600.0
# sbatch hands its environment to the job. What Slurm tells a job about itself would be taken for options of another one that is
# submitted from inside it, and mlcd's settings (the database's password) are not the job's business.
_NOT_FOR_JOBS = re.compile(r"(SLURM|SBATCH|SRUN)_(?!CONF$)|MLCD_")


class Here:
    """The login node is this computer; see mlcd.clouds.remote.base.Reach."""

    base = ""

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a command for bash."""
        env = {name: value for name, value in os.environ.items() if not _NOT_FOR_JOBS.match(name)}
        try:
            done = subprocess.run(["bash", "-c", command], input=stdin, capture_output=True, timeout=seconds, env=env)
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"'{command.split()[0]}' took longer than {seconds:g} seconds.") from error
        return CommandResult(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def put(self, archive: Path, folder: str) -> None:
        """Unpack an archive into a folder."""
        where = shlex.quote(folder)
        ran = self.run(f"mkdir -p {where} && tar -xzf {shlex.quote(str(archive))} -C {where}", seconds=COPY_SECONDS)
        if ran.code:
            raise CloudError(f"{folder} could not be written: {ran.output.strip()[-500:]}")

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # a shared file system that is away
            raise UnreachableError(f"{path} cannot be read: {error}") from error

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        draft = Path(f"{path}.part")
        try:
            draft.write_bytes(content)
            draft.replace(path)
        except OSError as error:
            raise UnreachableError(f"{path} cannot be written: {error}") from error

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file, and no more than so many bytes of it."""
        target.unlink(missing_ok=True)  # it might be a link, which would be written through
        try:
            if Path(path).stat().st_size > most:
                raise CloudError(f"'{Path(path).name}' has more bytes than it had.")
            shutil.copyfile(path, target)
        except OSError as error:
            raise CloudError(f"{path} cannot be copied: {error}") from error

    def close(self) -> None:
        """Nothing to let go of."""


def open_login(home: Path, settings: SlurmSettings) -> Reach:
    """The way there; nothing is connected yet."""
    if not settings.login:
        return Here()
    user, key = settings.user or getpass.getuser(), Path(settings.key).expanduser()
    first_seen, listed = home / "known" / settings.login, Path("~/.ssh/known_hosts").expanduser()
    return SshReach(settings.login, user, key, first_seen, "", settings.port, listed)
