"""Whatever is wrong with the database, the error says so in plain words, and never the password."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text

from mlcd.errors import MissingExtraError, StoreError
from mlcd.store import Store, database, open_store
from mlcd.store.faults import shown
from store.store_samples import job


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a tenth of a second for a lock."""
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.1)


def file_of(url: str) -> Path:
    return Path(str(make_url(url).database))


def test_a_full_disk_is_told_and_nothing_is_lost(sqlite_url: str) -> None:
    with closing(open_store(sqlite_url)) as store:
        store.add_job(job("before"))
        _allow_pages(store, 1)
        with pytest.raises(StoreError, match="the disk is full") as full:
            store.add_job(job("too-big", error="x" * 1_000_000))
        assert "Free some space" in full.value.hint
        _allow_pages(store, 1_000_000)
        store.add_job(job("after"))
        assert [record.id for record in store.jobs()] == ["after", "before"]


def _allow_pages(store: Store, pages: int) -> None:
    """SQLite's own limit fails as a full disk does. It belongs to a connection: ours has just one so far."""
    with store._database.reading() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


@pytest.mark.usefixtures("impatient")
def test_a_file_locked_by_another_process_is_told(sqlite_url: str) -> None:
    with closing(open_store(sqlite_url)) as store, closing(sqlite3.connect(file_of(sqlite_url))) as other:
        store.add_job(job())
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds it locked"):
            store.change_job(job().id, error="x")
        assert store.jobs() == [job()]  # readers do not wait
        other.rollback()
        store.change_job(job().id, error="x")


@pytest.mark.usefixtures("impatient")
def test_a_job_locked_by_another_client_is_told(postgres_url: str) -> None:
    plain = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(open_store(postgres_url)) as store, psycopg.connect(plain) as other:
        store.add_job(job())
        other.execute("SELECT 1 FROM jobs FOR UPDATE")
        with pytest.raises(StoreError, match="another process holds it locked"):
            store.change_job(job().id, error="x")
        assert store.jobs() == [job()]


def test_a_file_that_is_no_database_is_told_and_kept(sqlite_url: str) -> None:
    file_of(sqlite_url).write_text("my novel\n" * 500)
    with pytest.raises(StoreError, match="damaged or not an mlcd database") as damaged:
        open_store(sqlite_url)
    assert "Move the file away" in damaged.value.hint
    assert file_of(sqlite_url).read_text().startswith("my novel")


def test_a_file_damaged_in_the_middle_is_told(sqlite_url: str) -> None:
    with closing(open_store(sqlite_url)) as store:
        for number in range(50):
            store.add_job(job(f"job-{number}"))
    size = file_of(sqlite_url).stat().st_size
    with file_of(sqlite_url).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(StoreError, match="damaged"), closing(open_store(sqlite_url)) as store:
        store.jobs()


@pytest.mark.parametrize("place", ["file/mlcd.db", "folder"])
def test_a_place_that_cannot_be_opened_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot be opened") as refused:
        open_store(f"sqlite:///{tmp_path / place}")
    assert "MLCD_STORE" in refused.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_told(sqlite_url: str) -> None:
    file_of(sqlite_url).chmod(0o400)
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(sqlite_url)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/mlcd?password=hunter2&connect_timeout=2"
    with pytest.raises(StoreError, match="the server cannot be reached") as unreachable:
        open_store(url)
    assert "me:***@127.0.0.1:1/mlcd" in unreachable.value.message
    assert "hunter2" not in str(unreachable.value)


def test_a_server_that_does_not_know_the_database_is_told(postgres: str) -> None:
    missing = make_url(postgres).set(database="nothing").render_as_string(hide_password=False)
    with pytest.raises(StoreError, match="refused the login"):
        open_store(missing)


def test_a_connection_cut_while_idle_is_made_again(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store:
        store.add_job(job())
        with store._database.reading() as connection:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        plain = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        assert store.jobs() == [job()]


def test_a_table_that_is_gone_is_told_with_the_databases_words(sqlite_url: str) -> None:
    with closing(open_store(sqlite_url)) as store:
        with closing(sqlite3.connect(file_of(sqlite_url))) as other:
            other.execute("DROP TABLE events")
        with pytest.raises(StoreError, match="no such table: events"):
            store.events("digits")


def test_a_document_that_makes_no_sense_is_told(store: Store) -> None:
    store.add_job(job())
    with store._database.writing() as connection:
        connection.execute(text("UPDATE jobs SET doc = '{\"id\": 7}'"))
    with pytest.raises(StoreError, match="A stored JobRecord cannot be read"):
        store.jobs()


@pytest.mark.parametrize("wrong", ["/home/me/mlcd.db", "hunter2", "postgresql://me:hunter2@host:port/x"])
def test_what_is_no_url_is_told_and_not_repeated(wrong: str) -> None:
    with pytest.raises(StoreError, match="is not a URL") as refused:
        open_store(wrong)
    assert "sqlite:////home/me/mlcd.db" in refused.value.hint
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["mysql", "postgresql+asyncpg"])
def test_another_kind_of_database_is_refused(scheme: str) -> None:
    with pytest.raises(StoreError, match=f"not in '{scheme.replace('+', '.')}'".replace(".", r"\+")):
        open_store(f"{scheme}://me@host/x")


def test_without_psycopg_the_install_line_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError) as missing:
        open_store("postgresql://me@host/x")
    assert missing.value.hint == "pip install 'mlcd[postgres]'"


def test_a_url_is_shown_without_what_is_secret() -> None:
    url = make_url("postgresql://me:hunter2@host/x?sslpassword=hunter2&host=/run")
    assert shown(url) == "postgresql://me:***@host/x?host=%2Frun"
