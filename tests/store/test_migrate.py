"""A database of an earlier revision is brought up to date with all that it holds, or the error says what to do.

revision_0004.sql was written by mlcd at revision 0004, which knew causes as sentences and searches by counting trials.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, text

from mlcd.core.run import JobState
from mlcd.core.task import EndCause
from mlcd.errors import StoreError
from mlcd.store import Store, open_store
from mlcd.store.database import open_database
from mlcd.store.migrate import HEAD, VERSION_TABLE, revision
from mlcd.store.tables import metadata

DUMP = (Path(__file__).parent / "revision_0004.sql").read_text()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    database = open_database(url)
    with closing(database), database.writing() as connection:
        yield connection


@pytest.fixture
def old_url(new_url: str) -> str:
    """A database at revision 0004, of either kind, with what the dump holds."""
    with closing(sqlite3.connect(":memory:")) as dump, connected(new_url) as connection:
        dump.executescript(DUMP)
        dump.row_factory = sqlite3.Row
        metadata.create_all(connection)
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in dump.execute(f"SELECT * FROM {table.name}")]
            if rows:
                connection.execute(insert(table), rows)
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('0004')"))
    return new_url


@pytest.fixture
def old_store(old_url: str) -> Iterator[Store]:
    with closing(open_store(old_url)) as store:
        yield store


def test_attempts_get_the_cause_that_their_sentence_told(old_store: Store) -> None:
    attempts = old_store.attempts("elastic-0001")
    assert [attempt.cause for attempt in attempts] == [
        EndCause.NO_CAPACITY,
        EndCause.SPOT_NOTICE,
        EndCause.NODE_LOST,
        EndCause.CRASHED,
        EndCause.OUT_OF_MEMORY,
        EndCause.DISK_FULL,
        EndCause.HUNG,
        EndCause.NOT_SHARED,
        EndCause.TIME_LIMIT,
        EndCause.STOPPED,
        EndCause.STOPPED,
        EndCause.BUDGET,
        EndCause.DEADLINE,
        EndCause.NAN_LOSS,
        EndCause.MOVE,
        EndCause.REPLAN,
    ]
    assert [attempt.exit_code for attempt in attempts[3:5]] == [3, None]
    assert attempts[0].why == "no capacity: AWS has no g5.xlarge in us-east-1a now"
    assert [attempt.cause for attempt in old_store.attempts("done-0002")] == [EndCause.COMPLETED]


def test_trials_get_the_number_of_their_search_and_of_the_fixes_before_them(old_store: Store) -> None:
    trials = old_store.trials("elastic-0001")
    assert [trial.search_number for trial in trials] == [0, 0, 1, 1]
    assert [trial.fixes for trial in trials] == [0, 0, 0, 1]
    assert [trial.search_number for trial in old_store.trials("done-0002")] == [0, 0]


def test_a_job_that_was_being_replanned_still_is(old_store: Store) -> None:
    record = old_store.job("elastic-0001")
    assert record.state is JobState.TRAINING
    assert record.replanning
    assert (record.search_number, record.fixes) == (2, 1)
    assert [change.gain for change in record.changes] == [0.1, None]


def test_all_else_is_as_it_was(old_store: Store) -> None:
    assert old_store.spent("done-0002") == pytest.approx(0.6)
    assert [line.id for line in old_store.job_lines(owners={"ada"})] == ["done-0002"]
    assert [live.task_id for live in old_store.lives("elastic-0001")] == ["elastic-0001-p5"]
    assert [event.number for event in old_store.events("elastic-0001")] == [1]
    assert len(old_store.points("elastic-0001")) == 1


def test_a_database_that_revision_0004_wrote_has_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    file = tmp_path / "mlcd.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(DUMP)
    open_store(f"sqlite:///{file}").close()
    with connected(f"sqlite:///{file}") as connected_to:
        context = MigrationContext.configure(connected_to, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert revision(connected_to) == HEAD


def test_an_upgrade_that_breaks_off_changes_nothing(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_upgrade = command.upgrade

    def breaks_off(*arguments: object) -> None:
        real_upgrade(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(command, "upgrade", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            open_store(old_url)
    with connected(old_url) as connection:
        assert revision(connection) == "0004"
    with closing(open_store(old_url)) as store:
        assert store.job("elastic-0001").search_number == 2


@pytest.mark.parametrize("old", ["0001", "0002", "0003"])
def test_a_database_of_before_the_first_script_is_left_alone(sqlite_url: str, old: str) -> None:
    with connected(sqlite_url) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{old}'"))
    with pytest.raises(StoreError, match=f"before 0.2 .revision {old}.") as refused:
        open_store(sqlite_url)
    assert "brings it to revision 0004" in refused.value.hint
    with connected(sqlite_url) as connection:
        assert revision(connection) == old
