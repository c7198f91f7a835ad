"""A store is made, found again and brought up to date, whoever else opens it at that moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from mlcd.errors import StoreError
from mlcd.store import open_store
from mlcd.store.database import open_database
from mlcd.store.migrate import HEAD, VERSION_TABLE, alembic_config, revision, upgrade
from mlcd.store.tables import metadata
from store.store_samples import all_at_once, job


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    database = open_database(url)
    with closing(database), database.writing() as connection:
        yield connection


def test_what_is_written_is_there_when_opened_again(new_url: str) -> None:
    with closing(open_store(new_url)) as store:
        store.add_job(job())
    with closing(open_store(new_url)) as store:
        assert store.jobs() == [job()]


def test_the_file_and_its_folder_are_for_the_owner_only(new_sqlite_url: str, tmp_path: Path) -> None:
    with closing(open_store(new_sqlite_url)) as store:
        store.add_job(job())
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "home").iterdir()}
    assert modes == {"mlcd.db": 0o600, "mlcd.db-wal": 0o600, "mlcd.db-shm": 0o600}
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_a_home_written_with_a_tilde_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store("sqlite:///~/records/mlcd.db").close()
    assert (tmp_path / "records" / "mlcd.db").is_file()


def test_sqlite_keeps_a_log_syncs_every_commit_and_checks_references(sqlite_url: str) -> None:
    with connected(sqlite_url) as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {pragma}").scalar()
            for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert found == ["wal", 2, 1, 30_000]


def test_a_store_in_memory_serves_all_threads() -> None:
    with closing(open_store("sqlite://")) as store:
        add: Callable[[int], None] = lambda number: store.add_job(job(f"job-{number}"))  # noqa: E731
        threads = [Thread(target=add, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.jobs()) == 8


def test_the_scripts_make_the_tables_that_the_code_uses(new_url: str) -> None:
    open_store(new_url).close()
    with connected(new_url) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert revision(connection) == HEAD
        assert ScriptDirectory.from_config(alembic_config(connection)).get_heads() == [HEAD]


def test_a_database_that_was_opened_and_never_filled_gets_its_tables(new_url: str) -> None:
    with connected(new_url) as connection:
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    with closing(open_store(new_url)) as store:
        store.add_job(job())
        assert store.jobs() == [job()]


def test_tables_whose_making_breaks_off_leave_nothing_behind(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_stamp = command.stamp

    def breaks_off(*arguments: object) -> None:
        real_stamp(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "stamp", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        open_store(new_url)
    with connected(new_url) as connection:
        assert inspect(connection).get_table_names() == []


def test_a_database_of_a_newer_mlcd_is_left_alone(url: str) -> None:
    open_store(url).close()
    try:
        with connected(url) as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        with pytest.raises(StoreError, match="newer mlcd") as refused:
            open_store(url)
        assert "pip install --upgrade mlcd" in refused.value.hint
    finally:
        with connected(url) as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{HEAD}'"))


OPEN = """
from mlcd.store import open_store
from store.store_samples import job
import alembic.command
url, number = sys.argv[1:]
print("ready", flush=True)
input()
store = open_store(url)
store.add_job(job("job-" + number))
store.close()
"""


@pytest.mark.slow
def test_processes_that_open_an_empty_database_at_once_do_not_collide(new_url: str) -> None:
    all_at_once(OPEN, 4, new_url)
    with closing(open_store(new_url)) as store:
        assert {record.id for record in store.jobs()} == {f"job-{number}" for number in range(4)}


def test_threads_that_open_an_empty_database_at_once_do_not_collide(new_url: str) -> None:
    opened: list[bool] = []

    def open_it() -> None:
        open_store(new_url).close()
        opened.append(True)

    threads = [Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4


def test_upgrading_twice_changes_nothing(url: str) -> None:
    database = open_database(url)
    with closing(database):
        upgrade(database)
        upgrade(database)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import mlcd", "sqlalchemy"),
        ("import mlcd.store", "alembic"),
        ("from mlcd.store import open_store; open_store(sys.argv[1]).close()", "alembic"),
        ("from mlcd.store import open_store; open_store(sys.argv[1]).close()", "psycopg"),
    ],
)
def test_only_what_is_needed_is_imported(sqlite_url: str, code: str, unwanted: str) -> None:
    check = f"import sys; {code}; sys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check, sqlite_url]).returncode == 0
