"""Who is notified: read as people write it, with mistakes in plain words."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd.core.jobfile import job_from_dict, job_to_dict
from mlcd.core.notices import Channel, NotificationEvent, Recipient
from mlcd.errors import InvalidJobError

SECRETS = {"SLACK_URL": "https://hooks.example.org/T/secret", "KEY": "signing-key"}


def notified(value: Any) -> tuple[Recipient, ...]:
    return job_from_dict({"run": "true", "on_event": value}, secrets=SECRETS).job.on_event


def complaint(value: Any) -> str:
    with pytest.raises(InvalidJobError) as caught:
        notified(value)
    return caught.value.message


def test_a_url_is_a_webhook_and_an_address_an_email() -> None:
    assert notified("https://example.org/hook") == (Recipient(Channel.WEBHOOK, "https://example.org/hook"),)
    assert notified("me@example.org") == (Recipient(Channel.EMAIL, "me@example.org"),)


def test_a_list_names_channels_events_and_secrets() -> None:
    found = notified(
        [
            {"slack": "$SLACK_URL", "events": ["finished", "Failed"]},
            {"webhook": "https://example.org", "sign_with": "$KEY"},
        ]
    )
    assert found[0] == Recipient(Channel.SLACK, "$SLACK_URL", (NotificationEvent.FINISHED, NotificationEvent.FAILED))
    assert found[1].sign_with == "KEY"


def test_what_goes_over_the_wire_reads_back_the_same() -> None:
    job = job_from_dict(
        {"run": "true", "on_event": [{"slack": "$SLACK_URL", "events": "budget"}, "me@example.org"]},
        secrets=SECRETS,
    ).job
    assert job_from_dict(job_to_dict(job), secrets=SECRETS).job == job


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("notify", "not an address such as https://"),
        ("file:///etc/passwd", "not an address such as https://"),
        ("gopher://example.org", "not an address"),
        ("https://user:password@example.org/", "a password does not belong in it"),
        ("$OTHER", "needs the secret 'OTHER'"),
        ({"webhok": "https://example.org"}, "Did you mean 'webhook'?"),
        ({"webhook": "https://example.org", "slack": "https://example.org"}, "say one of"),
        ({"webhook": "https://example.org", "events": "finish"}, "Did you mean 'finished'?"),
        ({"email": "me@example.org\nBcc: all@example.org"}, "not an e-mail address"),
        ({"email": "me@example.org", "sign_with": "KEY"}, "leave out 'sign_with'"),
        (["https://example.org"] * 21, "more than 20"),
    ],
)
def test_mistakes_are_said_in_plain_words(value: Any, words: str) -> None:
    assert words in complaint(value)


def test_a_secret_address_is_not_kept_in_the_job() -> None:
    job = job_from_dict({"run": "true", "on_event": {"slack": "$SLACK_URL"}}, secrets=SECRETS).job
    assert "hooks.example.org" not in repr(job)
