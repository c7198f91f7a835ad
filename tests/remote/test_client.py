"""RemoteClient keeps the contract of all clients, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_contract import ClientContract
from mlcd.core.view import IncompleteSweepError
from mlcd.remote import RemoteClient
from web.conftest import open_server as open_server
from web.servers import Server, served


@pytest.mark.slow
class TestRemoteClient(ClientContract):
    """On a server without accounts."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, open_server: Server) -> RemoteClient:
        return RemoteClient(open_server.url)


@pytest.mark.slow
def test_a_cloud_that_a_server_cannot_ask_is_told_to_whoever_sweeps(tmp_path: Path) -> None:
    nowhere = {"MLCD_CLOUD": "kubernetes", "MLCD_KUBERNETES_KUBECTL": "/no/such/kubectl"}
    with served(tmp_path / "home", **nowhere) as server, pytest.raises(IncompleteSweepError) as caught:
        RemoteClient(server.url).sweep()
    assert caught.value.strays == []
    assert [problem.cloud for problem in caught.value.problems] == ["kubernetes"]
