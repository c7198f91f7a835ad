"""What kubectl's errors mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.clouds.kubernetes.errors import CredentialsError, in_words, kind_of
from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.reach import _lacks_command, refusal
from mlcd.clouds.kubernetes.retry_limit import SECONDS, RetryLimit
from mlcd.clouds.remote.base import RefusedError, UnreachableError
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

NO_EXEC = (
    'Error from server (Forbidden): pods "p" is forbidden: User "mlcd" cannot create resource "pods/exec" in API group "" '
    'in the namespace "default"'
)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (NO_EXEC, UserError),
        ('Error from server (NotFound): error when creating "STDIN": namespaces "team" not found', UserError),
        ('The Job "x" is invalid: spec.template: Invalid value: {}: field is immutable', UserError),
        ("error: You must be logged in to the server (Unauthorized)", UserError),
        ("Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255", CredentialsError),
        ("Unable to connect to the server: getting credentials: exec: executable aws not found", UserError),
        ('Error creating: admission webhook "validate.kyverno.svc" denied the request: no limits are set', UserError),
        ('Error from server: error when creating "STDIN": admission webhook "w" denied the request: no', UserError),
        ('error: context "nope" does not exist', UserError),
        ('Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": …', UserError),
        ('Error creating: pods "x" is forbidden: exceeded quota: team, requested: cpu=4, used: cpu=2, limited: cpu=4', NoCapacityError),
        ('Error creating: pods "x" is forbidden: maximum cpu usage per Container is 2, but limit is 4', NoCapacityError),
        ('Error creating: Internal error occurred: failed calling webhook "w": timed out', CloudError),
        ("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout", CloudError),
        ("The connection to the server localhost:8080 was refused - did you specify the right host or port?", CloudError),
    ],
)  # fmt: skip
def test_errors_are_told_by_who_can_do_something_about_them(said: str, kind: type[MlcdError]) -> None:
    error = in_words("make pods", said)
    assert type(error) is kind
    assert error.hint


def test_a_namespace_that_is_not_there_is_named() -> None:
    error = in_words("create Jobs", 'Error from server (NotFound): namespaces "team" not found')
    assert error.message == "The cluster has no namespace 'team'."
    assert "kubectl create namespace team" in error.hint


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (NO_EXEC, RefusedError),
        ("error: unable to upgrade connection: Forbidden (user=kube, verb=create, resource=nodes, subresource=proxy)", RefusedError),
        ('Error from server (NotFound): pods "p" not found', UnreachableError),
        ('error: unable to upgrade connection: container not found ("mlcd")', UnreachableError),
        ("Error from server: error dialing backend: dial tcp 10.0.0.2:10250: i/o timeout", UnreachableError),
        ("error: cannot exec into a container in a completed pod; current phase is Succeeded", UnreachableError),
    ],
)  # fmt: skip
def test_a_right_that_is_missing_is_not_taken_for_a_pod_that_is_away(said: str, kind: type[MlcdError]) -> None:
    error = refusal("p", said, RetryLimit())
    assert type(error) is kind
    assert said in error.message


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (NO_EXEC, UserError),
        ("error: You must be logged in to the server (Unauthorized)", UserError),
        ('Error creating: pods "x" is forbidden: exceeded quota: team', NoCapacityError),
        ('Error creating: admission webhook "w" denied the request: ', UserError),
    ],
)
def test_what_stands_before_a_long_story_counts(said: str, kind: type[MlcdError]) -> None:
    error = in_words("make pods", said + ", because" * 200)
    assert type(error) is kind
    assert len(error.message) < 700


def test_credentials_that_cannot_be_had_for_a_moment_do_not_close_a_pod() -> None:
    said = "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255"
    now = [0.0]
    credentials = RetryLimit(lambda: now[0])
    assert type(refusal("p", said, credentials)) is UnreachableError
    now[0] = SECONDS - 1
    assert type(refusal("p", said, credentials)) is UnreachableError
    now[0] = SECONDS + 1
    assert type(refusal("p", said, credentials)) is RefusedError
    credentials.renew()
    assert type(refusal("p", said, credentials)) is UnreachableError


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ('OCI runtime exec failed: unable to start container process: exec: "python3": executable file not found in $PATH', True),
        ("crun: executable file `python3` not found in $PATH: No such file or directory", True),
        ('failed to create containerd task: exec: "sh": executable file not found in $PATH', False),
        ('rpc error: code = Unavailable desc = "transport: dial unix /run/containerd/containerd.sock: connect: no such file or directory"', False),
        ("exec failed: /run/containerd/python3: no such file or directory", False),
    ],
)  # fmt: skip
def test_only_the_command_that_was_asked_for_is_missing(said: str, lacks: bool) -> None:
    assert _lacks_command("python3", said) is lacks


def test_a_command_with_its_path_is_missed() -> None:
    said = 'unable to start container process: exec: "/opt/python": stat /opt/python: no such file or directory'
    assert _lacks_command("/opt/python", said)


def test_the_servers_own_word_is_found() -> None:
    assert kind_of('Error from server (AlreadyExists): jobs.batch "x" already exists') == "AlreadyExists"
    assert kind_of("error: unknown flag") == ""


def test_a_cluster_that_does_not_answer_in_time_is_told_as_that(tmp_path: Path) -> None:
    command = tmp_path / "kubectl"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    kubectl = Kubectl(str(command), "", "default")
    with pytest.raises(CloudError, match=r"could not create Jobs within 0\.2 seconds"):
        kubectl.create("create Jobs", {}, seconds=0.2)
    with pytest.raises(CloudError, match=r"could not list Jobs within 0\.2 seconds"):
        kubectl.must("list Jobs", "get", "jobs", seconds=0.2)
