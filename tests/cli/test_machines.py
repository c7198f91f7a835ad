"""offers, check and sweep."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

import stories
from cli.fake_client import Command, FakeClient, stray
from mlcd.cli.tables import check_table, findings_table
from mlcd.core.view import Check, Finding, SweepProblem


def test_offers_are_sorted_by_price(mlcd: Command) -> None:
    names = [offer["instance"]["name"] for offer in mlcd("offers", "--json", client=FakeClient()).data]
    assert names == ["c5.4xlarge", "p2.xlarge", "p3.2xlarge"]


def test_offers_are_filtered(mlcd: Command) -> None:
    done = mlcd("offers", "--gpus", "1", "--max-price", "2", client=FakeClient())
    assert "p2.xlarge" in done.out
    assert "p3.2xlarge" not in done.out
    assert "c5.4xlarge" not in done.out
    assert "None of 3 offers" in mlcd("offers", "--gpus", "9", client=FakeClient()).out


def test_an_unknown_order_is_a_usage_error(mlcd: Command) -> None:
    assert mlcd("offers", "--sort", "colour", client=FakeClient()).code == 2


def test_check_says_what_would_be_tried_and_spends_nothing(mlcd: Command) -> None:
    client = FakeClient(notices=("ports is not used by mlcd.",))
    done = mlcd("check", "job.yaml", client=client)
    assert done.code == 0
    assert "auto over 40 deployments" in done.out
    assert "1 to 16" in done.out
    assert "ports is not used by mlcd." in done.err
    assert client.names() == ["load", "check"]
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_check_names_the_servers_that_may_stand_beside_each_type() -> None:
    where = stories.served(stories.planned()).record.plan
    assert where is not None
    console = Console(width=100, record=True)
    console.print(check_table(Check(stories.job(), (), (where.deployment,), (60.0,), (0.1,))))
    text = console.export_text()
    assert "servers" in text
    assert "c5n.large" in text


def test_check_as_json_has_the_space(mlcd: Command) -> None:
    assert len(mlcd("check", "job.yaml", "--json", client=FakeClient()).data["space"]) == 40


def test_sweep_finds_nothing(mlcd: Command) -> None:
    done = mlcd("sweep", client=FakeClient())
    assert (done.code, done.out) == (0, "Nothing runs without a job.\n")


def test_sweep_only_lists_where_nobody_can_be_asked(mlcd: Command) -> None:
    client = FakeClient(strays=[stray()])
    done = mlcd("sweep", client=client)
    assert "its job is not known here" in done.out
    assert "mlcd sweep --yes" in done.out
    assert client.calls == [("sweep", False)]


def test_sweep_ends_strays_when_told_so(mlcd: Command, someone_answers: Callable[[str], None]) -> None:
    client = FakeClient(strays=[stray()])
    assert mlcd("sweep", "--yes", "--json", client=client).data[0]["ended"] is True
    someone_answers("y\n")
    assert "1 asked to end." in mlcd("sweep", client=client).out
    someone_answers("n\n")
    assert "asked to end" not in mlcd("sweep", client=client).out
    assert [end for _, end in client.calls] == [True, False, True, False]


def test_sweep_shows_what_it_found_though_a_cloud_could_not_be_asked(mlcd: Command) -> None:
    away = SweepProblem("ray", "The cluster does not answer.", "Is it up?")
    client = FakeClient(strays=[stray()], sweep_problems=[away])
    done = mlcd("sweep", client=client)
    assert done.code == 1
    assert "its job is not known here" in done.out
    assert "ray: The cluster does not answer." in done.err
    listed = mlcd("sweep", "--json", client=client)
    assert (listed.code, len(listed.data)) == (1, 1)
    alone = mlcd("sweep", client=FakeClient(sweep_problems=[away]))
    assert "Nothing runs" not in alone.out


def test_what_to_install_is_shown_with_its_brackets() -> None:
    console = Console(record=True, width=120)
    console.print(findings_table([Finding("store", False, "no Valkey", "pip install 'mlcd[functions]'")]))
    assert "pip install 'mlcd[functions]'" in console.export_text()
