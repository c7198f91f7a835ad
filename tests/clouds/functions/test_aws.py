"""At AWS the calls are the same; moto answers them here, as far as it goes (it invokes nothing)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from mlcd.clouds.functions import checking
from mlcd.clouds.functions.checking import check_functions, permission_findings
from mlcd.clouds.functions.cloud import FunctionsCloud
from mlcd.clouds.functions.lambdas import Lambdas, read_answer
from mlcd.clouds.functions.package import handler_package
from mlcd.core.view import Finding
from mlcd.errors import CloudError
from mlcd.settings import FunctionsSettings, Settings

moto = pytest.importorskip("moto")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(checking, "_permissions", lambda *_: iter(()))  # moto has no simulator of policies
    with moto.mock_aws():
        yield


def make_role(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    role = boto3.client("iam").create_role(RoleName="trainer", AssumeRolePolicyDocument=trust)
    return str(role["Role"]["Arn"])


def findings(home: Path, **settings: Any) -> dict[str, Finding]:
    found = check_functions(FunctionsSettings(endpoint="aws", **settings), home)
    return {finding.what: finding for finding in found}


@pytest.mark.usefixtures("account")
def test_a_function_is_made_found_and_removed(tmp_path: Path) -> None:
    settings = FunctionsSettings(endpoint="aws", role=make_role("lambda.amazonaws.com"))
    lambdas = Lambdas(settings, tmp_path)
    lambdas.create("mlcd-t1", 1769, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    lambdas.create("mlcd-t1", 1769, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    (listed,) = lambdas.ours()
    assert (listed.name, listed.task_id, listed.job_id, listed.memory_mb) == ("mlcd-t1", "t1", "j", 1769)
    lambdas.delete("mlcd-t1")
    lambdas.delete("mlcd-t1")
    assert lambdas.ours() == []


@pytest.mark.usefixtures("account")
def test_a_function_whose_task_nobody_knows_is_owned_and_can_be_ended(tmp_path: Path) -> None:
    settings = FunctionsSettings(endpoint="aws", role=make_role("lambda.amazonaws.com"))
    Lambdas(settings, tmp_path).create("mlcd-t1", 512, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    cloud = FunctionsCloud(Settings(home=tmp_path, functions=settings))
    (owned,) = cloud.owned()
    assert (owned.handle, owned.job_id) == ("t1", "j")
    cloud.stop("t1")
    assert list(cloud.owned()) == []


@pytest.mark.usefixtures("account")
def test_a_role_that_lambda_may_not_assume_is_told(tmp_path: Path) -> None:
    role = findings(tmp_path, role=make_role("ec2.amazonaws.com"))["role"]
    assert not role.ok
    assert "trust policy" in role.hint


@pytest.mark.usefixtures("account")
def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found["credentials"].ok
    for what, setting in {
        "role": "functions.role",
        "object store": "functions.objects",
        "parameter store": "functions.parameters",
    }.items():
        assert (found[what].ok, setting in found[what].hint) == (False, True), found[what]


def test_a_missing_permission_is_named() -> None:
    answers = [
        {"EvalActionName": "lambda:InvokeFunction", "EvalDecision": "allowed"},
        {"EvalActionName": "iam:PassRole", "EvalDecision": "implicitDeny"},
    ]
    invoke, passing = permission_findings(answers)
    assert (invoke.ok, passing.ok, passing.what) == (True, False, "iam:PassRole")
    assert "policy" in passing.hint


def test_without_credentials_nothing_else_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert [finding.ok for finding in check_functions(FunctionsSettings(endpoint="aws"), tmp_path)] == [False]


@pytest.mark.usefixtures("account")
def test_a_refusal_is_told_in_aws_own_words(tmp_path: Path) -> None:
    lambdas = Lambdas(FunctionsSettings(endpoint="aws", role="arn:aws:iam::1:role/none"), tmp_path)
    with pytest.raises(CloudError, match="AWS says"):
        lambdas.create("mlcd-t1", 1769, {})


def test_here_everything_is_there(tmp_path: Path) -> None:
    found = {finding.what: finding for finding in check_functions(FunctionsSettings(), tmp_path)}
    assert [what for what, finding in found.items() if not finding.ok] == []


def test_out_of_memory_is_told_from_other_ends() -> None:
    full = "REPORT Memory Size: 128 MB\tMax Memory Used: 128 MB\tBilled Duration: 12 ms"
    roomy = "REPORT Memory Size: 128 MB\tMax Memory Used: 90 MB"
    killed = b'{"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"}'
    assert read_answer(killed, "Unhandled", full).full
    assert not read_answer(killed, "Unhandled", roomy).full
    assert read_answer(b'{"phase": "ended"}', "", full).billed_seconds == 0.012


def test_the_package_is_small_and_always_the_same() -> None:
    handler_package.cache_clear()
    first = handler_package()
    handler_package.cache_clear()
    assert handler_package() == first
    assert len(first) < 1_000_000
