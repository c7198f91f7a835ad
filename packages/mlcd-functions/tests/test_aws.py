"""At AWS the calls are the same; moto answers them here, as far as it goes (it invokes nothing)."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from function_service import Service
from mlcd.clouds.ec2.errors import translated
from mlcd.core.machines import Deployment
from mlcd.core.task import Task, TaskKind
from mlcd.core.view import Finding
from mlcd.errors import CloudError, NoCapacityError, UserError
from mlcd.settings import Settings
from mlcd_functions import checks
from mlcd_functions.checks import (
    check_functions,
    needed_by_caller,
    permission_findings,
    principal_of,
)
from mlcd_functions.cloud import FunctionsCloud
from mlcd_functions.lambdas import Lambdas, read_answer
from mlcd_functions.libraries import wheels_for
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.offers import memory_of
from mlcd_functions.package import handler_package
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.upload import upload_code

moto = pytest.importorskip("moto")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(checks, "_simulated", lambda *_: iter(()))  # moto has no simulator of policies
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


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """The libraries for Lambda's runtime, as the package index has them."""
    try:
        return wheels_for(FunctionsSettings().runtime, tmp_path_factory.mktemp("libraries"))
    except CloudError as error:
        pytest.skip(f"there is no package index here: {error.message}")


@pytest.mark.slow
def test_the_libraries_are_for_the_runtime_whoever_packs_them(wheels: tuple[Path, ...]) -> None:
    data = handler_package(wheels)
    assert len(data) < 50_000_000  # what CreateFunction takes
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        names = package.namelist()
        compiled = [name for name in names if ".so" in name]
        tagged = [name for name in compiled if "cpython-" in name]
        needed = {int(minor) for name in compiled for minor in re.findall(rb"GLIBC_2\.(\d+)", package.read(name))}
    assert {"numpy/__init__.py", "obstore/__init__.py", "mlcd_functions/handler.py"} <= set(names)
    assert tagged
    assert all("cpython-313-x86_64" in name for name in tagged)
    assert max(needed) <= 34  # Amazon Linux 2023 has glibc 2.34
    assert not [name for name in names if "/tests/" in name]


def test_the_wheels_are_downloaded_once(wheels: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", "/nowhere")
    assert wheels_for(FunctionsSettings().runtime, wheels[0].parents[1]) == wheels


@pytest.mark.parametrize("runtime", ["python3.11", "nodejs20.x", "python3"])
def test_a_runtime_that_cannot_run_the_libraries_is_refused(runtime: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(runtime)):
        wheels_for(runtime, tmp_path)


def test_the_image_needs_no_server_of_a_parameter_store() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert [re.split("[>=]", each)[0] for each in project["dependencies"]] == ["mlcd", "obstore"]
    whole = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert whole["optional-dependencies"]["function-image"] == [f"mlcd-functions=={project['version']}"]


@pytest.fixture
def small_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FunctionsSettings]:
    """An account that may have functions of 3,008 MB at the most, as new ones at AWS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    service = Service(tmp_path / "account", most_memory_mb=3008)
    yield FunctionsSettings(endpoint=service.url, role="arn:aws:iam::1:role/none")
    service.end()


def test_what_is_larger_than_the_account_may_have_is_refused_before_it_is_launched(
    small_account: FunctionsSettings, tmp_path: Path
) -> None:
    cloud = FunctionsCloud(Settings(home=tmp_path / "home", clouds=(small_account,)))
    largest = list(cloud.offers())[-1]
    task = Task("t1", "j", TaskKind.PROBE, "command", "true", folder=str(tmp_path / "folder"))
    with pytest.raises(NoCapacityError, match="3,008 MB at the most"):
        cloud.launch(task, Deployment(largest, 1), {})
    assert list(cloud.owned()) == []
    assert max(memory_of(offer) for offer in cloud.offers()) <= 3008


def test_the_memory_limit_is_found_and_leaves_nothing(small_account: FunctionsSettings, tmp_path: Path) -> None:
    lambdas = Lambdas(small_account, tmp_path)
    assert lambdas.memory_limit() == 3008
    assert lambdas.ours() == []


@pytest.mark.usefixtures("account")
def test_functions_have_the_network_and_the_disk_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcd_functions.lambdas.wheels_for", lambda *_: ())
    settings = FunctionsSettings(
        endpoint="aws",
        role=make_role("lambda.amazonaws.com"),
        subnets="subnet-1, subnet-2",
        security_groups="sg-1",
        disk_mb=2048,
    )
    Lambdas(settings, tmp_path).create("mlcd-t1", 1769, {})
    made = boto3.client("lambda", "us-east-1").get_function(FunctionName="mlcd-t1")["Configuration"]
    assert made["VpcConfig"]["SubnetIds"] == ["subnet-1", "subnet-2"]
    assert made["VpcConfig"]["SecurityGroupIds"] == ["sg-1"]
    assert made["EphemeralStorage"] == {"Size": 2048}
    assert made["Runtime"] == "python3.13"


@pytest.mark.parametrize("one", [{"subnets": "subnet-1"}, {"security_groups": "sg-1"}])
def test_a_network_that_is_half_set_is_refused(tmp_path: Path, one: dict[str, str]) -> None:
    lambdas = Lambdas(FunctionsSettings(endpoint="aws", **one), tmp_path)
    with pytest.raises(UserError, match="only one of the two is set"):
        lambdas.create("mlcd-t1", 1769, {})


def test_code_that_does_not_fit_the_disk_is_refused(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "data.bin").write_bytes(b"0" * (3 << 20))
    task = Task("t1", "j", TaskKind.PROBE, "command", "true", workdir=str(tmp_path / "program"))
    objects = open_object_store((tmp_path / "objects").as_uri())
    with pytest.raises(UserError, match=r"functions\.disk_mb|of a function's disk"):
        upload_code(task, tmp_path / "home", tmp_path / "task", objects, lambda: None, disk_mb=2)
    assert objects.keys() == []
    upload_code(task, tmp_path / "home", tmp_path / "task", objects, lambda: None, disk_mb=8)


def test_permissions_are_asked_for_on_what_they_are_needed_for() -> None:
    settings = FunctionsSettings(endpoint="aws", role="arn:aws:iam::12:role/trainer", objects="s3://b/p")
    needed = needed_by_caller(settings, "arn:aws:iam::12:user/ada")
    assert needed["arn:aws:iam::12:role/trainer"] == ("iam:PassRole",)
    assert "lambda:InvokeFunction" in needed["arn:aws:lambda:us-east-1:12:function:mlcd-check"]
    assert "s3:PutObject" in needed["arn:aws:s3:::b/p/check"]
    assert "s3:ListBucket" in needed["arn:aws:s3:::b"]


def test_of_a_session_its_role_is_asked_for() -> None:
    assert principal_of("arn:aws:sts::12:assumed-role/Admin/ada") == "arn:aws:iam::12:role/Admin"
    assert principal_of("arn:aws:iam::12:user/ada") == "arn:aws:iam::12:user/ada"


def test_the_page_has_the_policies_that_the_check_promises() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "functions.md").read_text()
    policies = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    role, own = ({action for statement in policy["Statement"] for action in statement["Action"]} for policy in policies)
    of_objects = {*checks.ON_OBJECTS, *checks.ON_BUCKET}
    assert {*checks.ON_FUNCTIONS, *checks.ON_ACCOUNT, *checks.ON_ROLE, *of_objects} <= own
    assert of_objects <= role


@pytest.mark.slow
@pytest.mark.usefixtures("account")
def test_a_function_is_made_found_and_removed(tmp_path: Path, wheels: tuple[Path, ...]) -> None:
    settings = FunctionsSettings(endpoint="aws", role=make_role("lambda.amazonaws.com"))
    lambdas = Lambdas(settings, tmp_path)
    shutil.copytree(wheels[0].parents[1], tmp_path / "libraries")
    lambdas.create("mlcd-t1", 1769, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    lambdas.create("mlcd-t1", 1769, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    (listed,) = lambdas.ours()
    assert (listed.name, listed.task_id, listed.job_id, listed.memory_mb) == ("mlcd-t1", "t1", "j", 1769)
    lambdas.delete("mlcd-t1")
    lambdas.delete("mlcd-t1")
    assert lambdas.ours() == []


@pytest.mark.usefixtures("account")
def test_a_function_whose_task_nobody_knows_is_owned_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcd_functions.lambdas.wheels_for", lambda *_: ())
    settings = FunctionsSettings(endpoint="aws", role=make_role("lambda.amazonaws.com"))
    Lambdas(settings, tmp_path).create("mlcd-t1", 512, {"MLCD_TASK_ID": "t1", "MLCD_JOB_ID": "j"})
    cloud = FunctionsCloud(Settings(home=tmp_path, clouds=(settings,)))
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
    found = findings(tmp_path, subnets="subnet-1")
    assert found["credentials"].ok
    for what, setting in {
        "role": "functions.role",
        "object store": "functions.objects",
        "parameter store": "functions.parameters",
        "network": "functions.security_groups",
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


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Has something in AWS's place give the same answer to whatever is asked."""
    said = [b""]

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said[-1])

        do_GET = do_POST  # noqa: N815  # the name is http.server's

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield said.append
        server.shutdown()


@pytest.mark.parametrize(
    "answer", [b"<html><body>Log in to the hotel's network<br></body></html>", b"<html></html>", b"", b"{}"]
)
def test_an_answer_that_is_not_that_of_aws_is_told(
    answering: Callable[[bytes], None], tmp_path: Path, answer: bytes
) -> None:
    answering(answer)
    (found,) = check_functions(FunctionsSettings(endpoint="aws"), tmp_path)
    assert not found.ok
    assert "is not AWS" in found.detail
    with pytest.raises(CloudError, match="is not AWS"):
        Lambdas(FunctionsSettings(endpoint="aws"), tmp_path).concurrency()
    with pytest.raises(CloudError, match="is not AWS"), translated("say who we are"):
        boto3.client("sts", "us-east-1").get_caller_identity()


@pytest.mark.usefixtures("account")
def test_a_refusal_is_told_in_aws_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcd_functions.lambdas.wheels_for", lambda *_: ())
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
    assert not read_answer(killed, "Unhandled", f"{full}\n{roomy}").full, "what the program prints before is no report"
    assert read_answer(b'{"phase": "ended"}', "", full).billed_seconds == 0.012


def test_the_package_is_small_and_always_the_same() -> None:
    handler_package.cache_clear()
    first = handler_package()
    handler_package.cache_clear()
    assert handler_package() == first
    assert len(first) < 1_000_000
