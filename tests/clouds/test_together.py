"""Several clouds as one sell what all of them sell, and each task goes to its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.local.tools import Computer
from mlcd import registry
from mlcd.clouds.together import Together, open_together
from mlcd.core.machines import Deployment
from mlcd.core.task import TaskState
from mlcd.errors import CloudError, NotFoundError, UserError
from mlcd.settings import Settings


def both(home: Path) -> Together:
    cloud = registry.load("clouds", "local+functions")(Settings(home=home), {})
    assert isinstance(cloud, Together)
    return cloud


def test_offers_are_those_of_all_clouds_and_keep_their_names(tmp_path: Path) -> None:
    offers = list(both(tmp_path).offers())
    assert {offer.cloud for offer in offers} == {"local", "functions"}
    assert {offer.kind for offer in offers} == {"vm", "function"}


def test_a_task_runs_on_the_cloud_of_its_offer(tmp_path: Path) -> None:
    cloud = both(tmp_path)
    offer = next(offer for offer in cloud.offers() if offer.cloud == "local")
    task = Computer(tmp_path).task("echo done")
    handle = cloud.launch(task, Deployment(offer, 1), {})
    assert handle.startswith("local:")
    deadline = time.monotonic() + 60
    while not (status := cloud.status(handle)).state.ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert status.state is TaskState.SUCCEEDED
    assert list(cloud.owned()) == []


def test_what_none_of_them_knows_is_lost_and_stopping_it_is_quiet(tmp_path: Path) -> None:
    cloud = both(tmp_path)
    assert cloud.status("elsewhere:1").state is TaskState.LOST
    cloud.stop("elsewhere:1")


def test_an_offer_of_another_cloud_is_refused(tmp_path: Path) -> None:
    cloud = both(tmp_path)
    offer = replace(next(iter(cloud.offers())), cloud="elsewhere")
    with pytest.raises(CloudError, match="elsewhere"):
        cloud.launch(Computer(tmp_path).task("true"), Deployment(offer, 1), {})


def test_an_unknown_member_is_named() -> None:
    with pytest.raises(NotFoundError, match="'functionz'"):
        registry.load("clouds", "local+functionz")


def test_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="trace"):
        open_together(["local", "functions"], Settings(home=tmp_path), {"trace": "x"})


def test_the_joining_itself_is_no_cloud_to_choose() -> None:
    assert "together" not in registry.names("clouds")
