"""`mlcd --server`, `login`, `serve` and `model`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.fake_client import Command, FakeClient
from mlcd.remote import load_token, save_token
from web.servers import Server, served

pytestmark = pytest.mark.slow

JOB = """name: toy
run: python train.py
num_nodes: 1..4
work: {samples: 2000000}
goal: cheapest
deadline: 6h
"""
TRACE = """workload,instance,nodes,throughput,usd_per_node_hour,status
toy,slow,1,100,0.10,ok
toy,slow,2,190,0.10,ok
"""


class WithModel(FakeClient):
    def model(self, job_id: str) -> Iterator[bytes]:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("model.json", "{}")
        yield stream.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("served") / "home") as running:
        yield running


def test_a_job_is_run_on_the_server_and_not_here(
    mlcd: Command, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCD_HOME", str(tmp_path / "here"))
    monkeypatch.setenv("MLCD_SERVER", server.url)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "job.yaml").write_text(JOB)
    done = mlcd("run", str(tmp_path / "job.yaml"), "--yes", "--trace", str(tmp_path / "trace.csv"), "--json")
    assert done.code == 0, done.err
    job_id = done.data["record"]["id"]
    assert [view["record"]["id"] for view in mlcd("status", "--json").data] == [job_id]
    assert not (tmp_path / "here" / "mlcd.db").exists()
    monkeypatch.delenv("MLCD_SERVER")
    assert mlcd("--server", server.url, "status", job_id, "--exit-code").code == 0


def test_a_login_is_kept_for_the_owners_eyes_only(
    mlcd: Command, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCD_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda *_words, **_options: "mlcd_1_secret")
    assert mlcd("login", server.url).code == 0
    assert load_token(tmp_path, server.url + "/") == "mlcd_1_secret"
    monkeypatch.setattr("sys.stdin", io.StringIO("mlcd_2_secret\n"))
    assert mlcd("login", server.url).code == 0
    assert load_token(tmp_path, server.url + "/") == "mlcd_2_secret"
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600


def test_a_token_is_replaced_and_forgotten(tmp_path: Path) -> None:
    for token in ("one", "two", ""):
        save_token(tmp_path, "https://a.example", token)
        assert load_token(tmp_path, "https://a.example/") == token
    assert load_token(tmp_path, "https://b.example") == ""


def test_a_server_that_is_not_there_is_said_soon(mlcd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = mlcd("--server", "http://127.0.0.1:9", "status")
    assert done.code == 1
    assert "cannot be reached" in done.err


def test_an_address_that_is_none_is_a_usage_error(mlcd: Command) -> None:
    assert mlcd("--server", "ftp://x", "status").code == 2


def test_serving_the_world_without_accounts_is_refused(
    mlcd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCD_HOME", str(tmp_path))
    done = mlcd("serve", "--host", "0.0.0.0", "--no-accounts")
    assert done.code == 2
    assert "--insecure" in done.err


def test_a_port_that_is_taken_is_said(
    mlcd: Command, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCD_HOME", str(tmp_path))
    done = mlcd("serve", "--port", str(server.port))
    assert done.code == 2
    assert "--port" in done.err


def test_the_model_is_written_whole_into_one_file(mlcd: Command, tmp_path: Path) -> None:
    done = mlcd("model", "j-7f3a", "-o", str(tmp_path / "m.zip"), client=WithModel())
    assert done.code == 0
    assert zipfile.ZipFile(tmp_path / "m.zip").namelist() == ["model.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.zip"]
