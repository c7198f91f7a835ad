"""Who may talk to the service: processes of the user that runs it. Everybody else on this computer is turned away.

Whoever can create a function runs code as this user, and events carry secrets; neither of Lambda's protocols has a password
that would keep others out here. The kernel knows whose a connection is.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from socket import inet_aton
from typing import Any

_TABLE = Path("/proc/net/tcp")


class OwnUsersServer(ThreadingHTTPServer):
    """Serves this user's own processes."""

    daemon_threads = True
    request_queue_size = 256  # many functions are invoked in one go

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether the connection comes from a process of this user."""
        return owner_of(*client_address) == os.getuid()


def owner_of(host: str, port: int, table: Path = _TABLE) -> int | None:
    """The user whose process has this end of a connection on the loopback; None: nobody knows."""
    (address,) = struct.unpack("=I", inet_aton(host))  # the kernel prints it in the machine's own order
    ours = f"{address:08X}:{port:04X}"
    with suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1] == ours:
                return int(fields[7])
    return None
