"""HTTP requests to addresses that users give: http and https only, no redirects and, for jobs of accounts, only hosts of
the public internet. The address that was looked up and checked is the one that is connected to.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from mlcd.errors import UserError

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # IPv4 addresses behind a translator
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that has ever been given out to the public
_DOCUMENTS = ipaddress.IPv6Network("3fff::/20")  # examples in books, RFC 9637
_INSIDE = (  # look public, but belong to the inside of a cloud
    ipaddress.IPv4Network("168.63.129.16/32"),  # Azure
    ipaddress.IPv4Network("192.0.0.0/24"),  # of protocols, RFC 6890; Oracle
)
_OWN_NAMES = (".localhost", ".local", ".internal", ".home.arpa")

MOST_ANSWER_BYTES = 64 * 1024  # of an answer nothing but its status matters


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    status: int
    reason: str

    @property
    def good(self) -> bool:
        """Whether the server accepted the request."""
        return 200 <= self.status < 300

    @property
    def temporary(self) -> bool:
        """Whether a retry may help."""
        return self.status == 429 or self.status >= 500


class SentWithoutAnswerError(Exception):
    """The request was sent, and no answer came: it may have arrived."""


def post(url: str, body: bytes, headers: dict[str, str], timeout_seconds: float, anywhere: bool) -> Answer:
    """Send one POST request. OSError: it was not sent; SentWithoutAnswerError: it may have arrived."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    raw = socket.create_connection(_place(host, port, anywhere), timeout_seconds)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        secure = parts.scheme == "https"
        connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secure else raw
        return _exchange(connection, parts._replace(scheme="", netloc="").geturl() or "/", body, headers)
    finally:
        connection.close()
        raw.close()


def _exchange(connection: http.client.HTTPConnection, target: str, body: bytes, headers: dict[str, str]) -> Answer:
    connection.request("POST", target, body, headers)
    try:
        answer = connection.getresponse()
        answer.read(MOST_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise SentWithoutAnswerError(str(error) or type(error).__name__) from error
    return Answer(answer.status, answer.reason)


def refuse_plainly_private(url: str) -> None:
    """Raise UserError if the URL itself contains a private address.

    A host name is checked when it is connected to, not here: it may have another address by then.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        numbers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:  # a name
        public = host != "localhost" and not host.endswith(_OWN_NAMES)
    else:
        public = all(is_public(str(info[4][0])) for info in numbers)
    if not public:
        raise _private(host)


def _place(host: str, port: int, anywhere: bool) -> tuple[str, int]:
    """The address of a host; a private one is refused unless anything goes."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not anywhere and not all(is_public(address) for address in found):
        raise _private(host)
    return found[0], port


def _private(host: str) -> UserError:
    return UserError(
        f"'{host}' is an address of this network; jobs of accounts may only notify public addresses.",
        "An admin can allow it: set allow_private in [notify].",
    )


def is_public(address: str) -> bool:
    """Whether it is a host of the public internet, and not this computer, its network or its cloud's own."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        return ip in _GLOBAL_IPV6 and ip.is_global and ip not in _DOCUMENTS
    return ip.is_global and not ip.is_multicast and not any(ip in inside for inside in _INSIDE)
