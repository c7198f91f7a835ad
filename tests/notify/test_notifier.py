"""Each notification is sent at most once, whoever drives the job, and the training never waits for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.notices import EVERY_OCCASION, Channel, NotificationEvent, Recipient
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.errors import UserError
from mlcd.notify import Notifier, open_notifier
from mlcd.notify.targets import Target, targets_of
from mlcd.settings import NotifySettings, Settings
from mlcd.store import Store, open_store
from notify.listeners import web_server
from stories import SUBMITTED, record, training

TRACE = """workload,instance,nodes,throughput,usd_per_node_hour,status
toy,slow,1,100,0.10,ok
toy,fast,1,400,0.90,ok
"""
TOY = {"name": "toy", "run": "x", "work": {"samples": 2_000_000}, "goal": "cheapest", "deadline": "6h"}

QUICK = NotifySettings(timeout_seconds=2.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    yield opened
    opened.close()


def job(store: Store, state: JobState = JobState.TRAINING, **facts: object) -> JobRecord:
    made = record(state, **facts)
    store.add_job(made)
    return made


def notifier(store: Store, *urls: str, settings: NotifySettings = QUICK) -> Notifier:
    targets = [Target(Channel.WEBHOOK, url, f"webhook {number}", EVERY_OCCASION) for number, url in enumerate(urls)]
    return Notifier(store, settings, "j-7f3a", targets)


def test_a_second_look_and_a_second_controller_tell_nothing_twice(store: Store) -> None:
    job(store, JobState.SUCCEEDED, ended_at=SUBMITTED + 60.0)
    with web_server() as heard:
        first = notifier(store, heard.url)
        first.look()
        first.look()
        notifier(store, heard.url).look()
    assert [json.loads(body)["event"] for body in heard.bodies] == ["finished"]
    assert [event.kind for event in store.events("j-7f3a")] == ["notice"]


def test_a_second_failure_is_told_again(store: Store) -> None:
    job(store, JobState.FAILED, ended_at=SUBMITTED + 60.0, error="one")
    with web_server() as heard:
        notifier(store, heard.url).look()
        store.change_job("j-7f3a", ended_at=SUBMITTED + 120.0, error="two")
        notifier(store, heard.url).look()
    assert [json.loads(body)["message"][-3:] for body in heard.bodies] == ["one", "two"]


@pytest.mark.parametrize(("owner", "told"), [("ada", "$MLCD_HOME/jobs"), ("", "/srv/mlcd/jobs")])
def test_users_of_a_server_are_not_told_where_it_keeps_things(store: Store, owner: str, told: str) -> None:
    with web_server() as heard:
        error = "no room in /srv/mlcd/jobs"
        made = job(store, JobState.FAILED, ended_at=SUBMITTED + 60.0, error=error, owner=owner)
        settings = Settings(home=Path("/srv/mlcd"), notify=replace(QUICK, webhook=heard.url, allow_private=True))
        opened = open_notifier(store, settings, made, {})
        assert opened is not None
        opened.look()
    assert json.loads(heard.bodies[0])["message"].endswith(f"no room in {told}")


def test_who_cannot_be_told_is_a_warning_and_the_others_are_told(store: Store) -> None:
    job(store, JobState.SUCCEEDED, ended_at=SUBMITTED + 60.0)
    with web_server(404) as broken, web_server() as heard:
        notifier(store, broken.url, heard.url).look()
    assert len(heard.bodies) == 1
    warnings = [event.message for event in store.events("j-7f3a") if event.kind == "warning"]
    assert warnings == ["Could not notify webhook 0 of 'finished': it answered 404"]
    assert "s3cret-path" not in str(store.events("j-7f3a"))


def test_a_deadline_is_at_risk_only_if_it_stays_so(store: Store) -> None:
    live = training().live
    assert live is not None
    assert live.total_seconds is not None
    job(store, deadline_at=SUBMITTED + live.total_seconds - 60.0)
    with web_server() as heard:
        watcher = notifier(store, heard.url)
        for total in (live.total_seconds, live.total_seconds, 1.0, *[live.total_seconds] * 4):
            store.put_live("j-7f3a", replace(live, total_seconds=total))
            assert heard.bodies == []
            watcher.look()
            if len(heard.bodies):
                break
        watcher.look()
    assert [json.loads(body)["event"] for body in heard.bodies] == ["deadline"]


def test_those_of_the_settings_and_of_the_job_are_told_with_their_secrets_filled_in() -> None:
    settings = NotifySettings(webhook="https://a.example/x", webhook_key="k", events="finished, failed")
    own = (
        Recipient(Channel.SLACK, "$URL"),
        Recipient(Channel.WEBHOOK, "https://c.example", sign_with="KEY"),
    )
    made = record(JobState.TRAINING, owner="ann")
    made = replace(made, job=replace(made.job, on_event=own))
    found = list(targets_of(settings, made, {"URL": "https://b.example/s3cret", "KEY": "mine"}))
    assert all(isinstance(each, Target) for each in found)
    first, second, third = (each for each in found if isinstance(each, Target))
    assert first.occasions == (NotificationEvent.FINISHED, NotificationEvent.FAILED)
    assert (first.signing_key, first.anywhere) == ("k", True)
    assert (second.address, second.name) == ("https://b.example/s3cret", "slack b.example (on_event 1)")
    assert (third.signing_key, third.anywhere) == ("mine", False)
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("value", ["file:///etc/passwd", "$URL", ""])
def test_a_secret_that_is_no_address_is_refused(value: str) -> None:
    made = record(JobState.TRAINING)
    made = replace(made, job=replace(made.job, on_event=(Recipient(Channel.SLACK, "$URL"),)))
    (found,) = targets_of(NotifySettings(), made, {"URL": value})
    assert isinstance(found, UserError)


def test_settings_that_are_not_understood_are_a_warning(store: Store, tmp_path: Path) -> None:
    made = job(store)
    settings = Settings(home=tmp_path, notify=NotifySettings(webhook="ftp://example.org"))
    assert open_notifier(store, settings, made, {}) is None
    (event,) = store.events(made.id)
    assert "[notify]" in event.message


def replayed(home: Path, url: str, notify: NotifySettings = QUICK) -> tuple[Client, str]:
    """A job that a controller in this process took to its end."""
    (home / "trace.csv").write_text(TRACE)
    client = Client(Settings(home=home, notify=notify))
    job_id = client.submit(
        client.load({**TOY, "on_event": {"webhook": url, "events": "finished"}}),
        cloud="replay",
        cloud_options={"trace": str(home / "trace.csv"), "workload": "toy"},
    )
    client.confirm(job_id)
    client.drive(job_id)
    return client, job_id


def test_the_controller_tells_of_the_end(tmp_path: Path) -> None:
    with web_server() as heard:
        client, job_id = replayed(tmp_path, heard.url)
    assert client.view(job_id).record.state is JobState.SUCCEEDED
    assert [json.loads(body)["event"] for body in heard.bodies] == ["finished"]
    assert client.view(job_id).spent.seconds > 0  # a notice does not turn the job's own clock back
    client.close()


def test_a_webhook_that_never_answers_does_not_change_how_a_job_ends(tmp_path: Path) -> None:
    began = time.monotonic()
    with web_server(silent=True) as heard:
        client, job_id = replayed(tmp_path, heard.url, NotifySettings(timeout_seconds=0.5))
    assert client.view(job_id).record.state is JobState.SUCCEEDED
    assert time.monotonic() - began < 20.0
    assert "no answer" in client.events(job_id)[-1].message
    client.close()
