"""Sends a message: retried where it surely did not arrive, never where it may have."""

from __future__ import annotations

import hashlib
import hmac
import smtplib
import ssl
import time
from collections.abc import Callable

from mlcd.core.notices import Channel
from mlcd.errors import UserError
from mlcd.notify.addresses import Answer, SentWithoutAnswerError, post
from mlcd.notify.messages import Message, as_email, as_json, as_slack
from mlcd.notify.targets import Target
from mlcd.settings import NotifySettings

TRIES = 3
PAUSE_SECONDS = 1.0  # before the second try; doubled with each


class NotSentError(Exception):
    """The message did not arrive, or may not have."""


class RetryError(Exception):
    """The message did not arrive; a retry may help."""


def send(
    settings: NotifySettings, target: Target, message: Message, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Send the message to the target, or raise NotSentError."""
    for number in range(1, TRIES + 1):
        try:
            _once(settings, target, message)
            return
        except RetryError as error:
            if number == TRIES:
                raise NotSentError(f"{error} ({TRIES} tries)") from error
        except (UserError, SentWithoutAnswerError) as error:
            sent = isinstance(error, SentWithoutAnswerError)
            raise NotSentError(f"no answer: {error}" if sent else str(error)) from error
        sleep(PAUSE_SECONDS * 2 ** (number - 1))


def signature(key: str, body: bytes) -> str:
    """The value of the header X-Mlcd-Signature."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def _once(settings: NotifySettings, target: Target, message: Message) -> None:
    if target.channel is Channel.EMAIL:
        _mail(settings, target, message)
        return
    try:
        answer = _post(settings, target, message)
    except ssl.SSLCertVerificationError as error:
        raise UserError(f"its certificate is not valid: {error.verify_message}") from error
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
        raise RetryError(f"it cannot be reached: {error}") from error
    if answer.temporary:
        raise RetryError(f"it answered {answer.status}")
    if not answer.good:
        raise UserError(f"it answered {answer.status}")


def _post(settings: NotifySettings, target: Target, message: Message) -> Answer:
    body = as_slack(message) if target.channel is Channel.SLACK else as_json(message)
    headers = {"Content-Type": "application/json", "User-Agent": "mlcd"}
    if target.channel is Channel.WEBHOOK:
        headers["X-Mlcd-Event"] = message.occurrence.occasion.value
        headers["X-Mlcd-Delivery"] = message.delivery
    if target.signing_key:
        headers["X-Mlcd-Signature"] = signature(target.signing_key, body)
    return post(target.address, body, headers, settings.timeout_seconds, target.anywhere)


def _mail(settings: NotifySettings, target: Target, message: Message) -> None:
    if not settings.smtp_host:
        raise UserError("no mail server is set: set smtp_host in [notify]")
    try:
        with _mail_server(settings) as server:
            if settings.smtp_user:
                server.login(settings.smtp_user, settings.smtp_password)
            server.send_message(as_email(message, settings.smtp_from, target.address))
    except (smtplib.SMTPAuthenticationError, smtplib.SMTPNotSupportedError) as error:
        raise UserError("the mail server refused the login") from error
    except smtplib.SMTPResponseException as error:
        words = f"the mail server answered {error.smtp_code}"
        raise (RetryError if 400 <= error.smtp_code < 500 else UserError)(words) from error
    except smtplib.SMTPRecipientsRefused as error:
        raise UserError("the mail server does not know the recipient") from error
    except (OSError, smtplib.SMTPException) as error:
        raise RetryError(f"the mail server cannot be used: {error}") from error


def _mail_server(settings: NotifySettings) -> smtplib.SMTP:
    host, port, seconds = settings.smtp_host, settings.smtp_port, settings.timeout_seconds
    if settings.smtp_security == "tls":
        return smtplib.SMTP_SSL(host, port, timeout=seconds, context=ssl.create_default_context())
    if settings.smtp_security not in ("starttls", "none"):
        raise UserError(f"smtp_security is '{settings.smtp_security}': use starttls, tls or none")
    server = smtplib.SMTP(host, port, timeout=seconds)
    if settings.smtp_security == "starttls":
        server.starttls(context=ssl.create_default_context())
    return server
