"""Client keeps the contract of all clients, in process."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature

import pytest

from client_contract import ClientContract
from mlcd.api import Client
from mlcd.client import ClientProtocol
from mlcd.clouds.local.settings import LocalSettings
from mlcd.remote import RemoteClient
from mlcd.settings import Settings

SERVER_ONLY = {  # what a server needs of the client of its own process
    "drive",
    "find",
    "model_folder",
    "models",
    "remaining_usd",
    "revive",
    "store",
    "tasks",
    "training_curves",
}


@pytest.mark.slow
class TestClient(ClientContract):
    """On this computer's store."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
        home = tmp_path_factory.mktemp("in-process") / "home"
        made = Client(Settings(home=home, clouds=(LocalSettings(usd_per_core_hour=1.0, cores=2),)))
        yield made
        made.sweep(end=True, others=True)
        made.close()


def test_a_verb_of_the_client_is_a_verb_of_every_client() -> None:
    """mypy holds both clients to the protocol; this holds the protocol to the client."""
    verbs = {name for name in vars(Client) if not name.startswith("_")} - SERVER_ONLY
    missing = verbs - set(vars(ClientProtocol)) - {"poll_seconds"}
    assert not missing, f"add {missing} to ClientProtocol, to RemoteClient and to the REST API"


@pytest.mark.parametrize("kind", [Client, RemoteClient])
def test_a_client_takes_the_arguments_of_the_protocol(kind: type[ClientProtocol]) -> None:
    for name, verb in vars(ClientProtocol).items():
        if callable(verb) and not name.startswith("_"):
            wanted, taken = (signature(each).parameters for each in (verb, getattr(kind, name)))
            assert list(taken)[: len(wanted)] == list(wanted), name
