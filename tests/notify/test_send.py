"""Messages arrive at real web and mail servers, or it is said why not."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from mlcd.core.notices import EVERY_OCCASION, Channel, NotificationEvent
from mlcd.core.run import JobState
from mlcd.errors import UserError
from mlcd.notify.addresses import is_public, post, refuse_plainly_private
from mlcd.notify.messages import Message
from mlcd.notify.occurrences import Occurrence
from mlcd.notify.send import TRIES, NotSentError, send, signature
from mlcd.notify.targets import Target
from mlcd.settings import NotifySettings
from notify.listeners import web_server
from stories import SUBMITTED, record

SETTINGS = NotifySettings(timeout_seconds=2.0, smtp_security="none")
MESSAGE = Message(
    Occurrence(NotificationEvent.FINISHED, "1.0", "char-rnn is done <!channel>"),
    record(JobState.SUCCEEDED, ended_at=SUBMITTED + 60, owner="ann"),
    None,
    1.25,
    1_790_000_000.0,
    "d3l1very",
    "https://mlcd.example.org/jobs/j-7f3a",
)


def webhook(url: str, **facts: Any) -> Target:
    return Target(
        **{
            "channel": Channel.WEBHOOK,
            "address": url,
            "name": "webhook x",
            "occasions": EVERY_OCCASION,
            **facts,
        }
    )


def tell(target: Target, settings: NotifySettings = SETTINGS) -> None:
    send(settings, target, MESSAGE, sleep=lambda _seconds: None)


def why_not(target: Target, settings: NotifySettings = SETTINGS) -> str:
    with pytest.raises(NotSentError) as caught:
        tell(target, settings)
    return str(caught.value)


def test_a_webhook_gets_signed_json() -> None:
    with web_server() as heard:
        tell(webhook(heard.url, signing_key="key"))
    data = json.loads(heard.bodies[0])
    assert (data["event"], data["job"]["id"], data["spent_usd"]) == ("finished", "j-7f3a", 1.25)
    assert heard.headers[0]["X-Mlcd-Signature"] == signature("key", heard.bodies[0])
    assert heard.headers[0]["X-Mlcd-Delivery"] == data["delivery"] == "d3l1very"
    assert "value-that-is-not-shown" not in heard.bodies[0].decode()


def test_without_a_key_nothing_is_signed() -> None:
    with web_server() as heard:
        tell(webhook(heard.url))
    assert "X-Mlcd-Signature" not in heard.headers[0]


def test_slack_gets_a_text_that_mentions_nobody() -> None:
    with web_server() as heard:
        tell(webhook(heard.url, channel=Channel.SLACK))
    text = json.loads(heard.bodies[0])["text"]
    assert text.startswith("mlcd: char-rnn is done &lt;!channel&gt;\n")
    assert text.endswith("https://mlcd.example.org/jobs/j-7f3a")


def test_a_server_in_trouble_is_asked_again() -> None:
    with web_server(503, 429, 200) as heard:
        tell(webhook(heard.url))
    assert len(heard.bodies) == 3


def test_a_server_that_stays_in_trouble_is_given_up() -> None:
    with web_server(500) as heard:
        assert why_not(webhook(heard.url)) == "it answered 500 (3 tries)"
    assert len(heard.bodies) == TRIES


@pytest.mark.parametrize("status", [302, 400, 404])
def test_a_refusal_or_a_redirect_is_final(status: int) -> None:
    with web_server(status) as heard:
        assert f"it answered {status}" in why_not(webhook(heard.url))
    assert len(heard.bodies) == 1


def test_what_may_have_arrived_is_not_sent_twice() -> None:
    with web_server(silent=True) as heard:
        assert "no answer" in why_not(webhook(heard.url), replace(SETTINGS, timeout_seconds=0.3))
        assert len(heard.bodies) == 1


def test_a_server_that_is_not_there_is_named_so() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        assert "it cannot be reached" in why_not(webhook(url))


def test_nothing_is_told_in_the_clear_where_https_is_asked_for() -> None:
    with web_server() as heard:
        assert "cannot be reached" in why_not(webhook(heard.url.replace("http://", "https://")))
    assert heard.bodies == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_refused_where_they_must_be(host: str) -> None:
    with web_server() as heard:
        url = heard.url.replace("127.0.0.1", host)
        words = why_not(webhook(url, anywhere=False))
    assert "address of this network" in words or "cannot be reached" in words
    assert heard.bodies == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("10.0.0.1", False),
        ("169.254.169.254", False),  # where clouds hand out credentials
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
        ("2002:0a00:0001::1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::a00:1", False),
        ("::10.0.0.1", False),
        ("fec0::1", False),
        ("fd00:ec2::254", False),
        ("3fff::1", False),
        ("168.63.129.16", False),  # the inside of Azure
        ("192.0.0.192", False),  # that of Oracle's cloud
        ("not an address", False),
    ],
)
def test_what_is_public_is_known(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_the_address_that_was_judged_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that stands for a public address when it is judged, and for a private one a moment later."""
    answers, connected = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"]), []

    def look_up(_host: str, port: int, **_options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    def connect(address: tuple[str, int], _timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ConnectionRefusedError):
        post("http://rebinds.example.org/", b"{}", {}, 1.0, anywhere=False)
    assert connected == [("93.184.216.34", 80)]


def test_a_name_with_any_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_words, **_options: found)
    assert "address of this network" in why_not(webhook("http://both.example.org/", anywhere=False))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0x7f.1", "2130706433", "[::1]", "localhost", "LOCALHOST.", "a.localhost", "db.internal"],
)
def test_a_plainly_private_address_is_known_without_asking_anyone(host: str) -> None:
    with pytest.raises(UserError, match="address of this network"):
        refuse_plainly_private(f"http://{host}:8080/hook")


@pytest.mark.parametrize("host", ["example.org", "93.184.216.34", "[2606:2800:220:1::1]", "internal.example.org"])
def test_others_are_judged_later(host: str) -> None:
    refuse_plainly_private(f"https://{host}/hook")


class Mailbox:
    """Keeps what comes; refuses strangers."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _o: Any) -> str:  # noqa: N802  # aiosmtpd's name
        if address.startswith("nobody"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  # aiosmtpd's name
        self.mails.append(envelope.content)
        return "250 OK"


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, NotifySettings]]:
    box = Mailbox()
    server = Controller(box, hostname="127.0.0.1", port=0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server.port = probe.getsockname()[1]
    server.start()
    try:
        yield box, replace(SETTINGS, smtp_host="127.0.0.1", smtp_port=server.port, smtp_from="mlcd@x.org")
    finally:
        server.stop()


def mail_to(address: str) -> Target:
    return Target(Channel.EMAIL, address, f"email {address}", EVERY_OCCASION)


def test_a_mail_arrives(mailbox: tuple[Mailbox, NotifySettings]) -> None:
    box, settings = mailbox
    tell(mail_to("ann@x.org"), settings)
    mail = message_from_bytes(box.mails[0])
    assert (mail["From"], mail["To"]) == ("mlcd@x.org", "ann@x.org")
    assert mail["Subject"] == "mlcd: char-rnn is done <!channel>"
    assert "j-7f3a" in str(mail.get_payload())
    assert "https://mlcd.example.org/jobs/j-7f3a" in str(mail.get_payload())


def test_an_unknown_recipient_is_named_so(mailbox: tuple[Mailbox, NotifySettings]) -> None:
    box, settings = mailbox
    assert "does not know the recipient" in why_not(mail_to("nobody@x.org"), settings)
    assert box.mails == []


def test_a_server_without_starttls_is_not_sent_a_password(mailbox: tuple[Mailbox, NotifySettings]) -> None:
    box, settings = mailbox
    secure = replace(settings, smtp_security="starttls", smtp_user="me", smtp_password="hidden")
    words = why_not(mail_to("ann@x.org"), secure)
    assert "hidden" not in words
    assert box.mails == []


def test_without_a_mail_server_it_is_said_what_to_set() -> None:
    assert "smtp_host" in why_not(mail_to("ann@x.org"))
    assert "use starttls, tls or none" in why_not(
        mail_to("ann@x.org"), replace(SETTINGS, smtp_host="127.0.0.1", smtp_security="ssl3")
    )
