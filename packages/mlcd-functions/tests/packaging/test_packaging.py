"""What functions at AWS run beside the program: measured before it is sent, built by an engine or by hand, sent once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from mlcd.errors import UserError
from mlcd_functions import checks
from mlcd_functions.lambdas import Lambdas
from mlcd_functions.packaging import engines, layers, lock, make
from mlcd_functions.packaging.context import has_client, write_context
from mlcd_functions.packaging.ecr import Repository, image_of, repository_of
from mlcd_functions.packaging.engines import Engine, find_engine
from mlcd_functions.packaging.limits import Locked, TooLargeError, in_words, refuse_image, refuse_layer
from mlcd_functions.packaging.make import Images, Layers
from mlcd_functions.settings import FunctionsSettings

moto = pytest.importorskip("moto")
pytest.importorskip("moto.server")

ACCOUNT, REGION = "123456789012", "us-east-1"
URI = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/mlcd-functions"
TORCH = Locked("torch", "2.13.0", "https://index/torch.whl", "ab12", 900 << 20)
KIND = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST = {"schemaVersion": 2, "mediaType": KIND, "config": {"digest": "sha256:1", "size": 1}, "layers": []}
SMALL = Locked("numpy", "2.4.6", "https://index/numpy.whl", "cd34", 17 << 20)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with moto.mock_aws():
        yield


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[Locked]:
    """What a package index would give; the test changes it."""
    found = [SMALL]
    monkeypatch.setattr(make, "resolve", lambda *_: tuple(found))
    return found


def images(engine: Engine | None = None, repository: Repository | None = None) -> Images:
    return Images(FunctionsSettings(), engine, repository, lambda _: None)


# Sizes


def test_what_does_not_fit_a_layer_is_refused_with_what_is_too_large_and_what_to_do() -> None:
    refuse_layer(250 << 20, [SMALL], "unzipped")
    with pytest.raises(
        TooLargeError, match=r"torch 2\.13\.0, numpy 2\.4\.6 have 917 MB packed.*250 MB unzipped"
    ) as error:
        refuse_layer(917 << 20, [SMALL, TORCH], "packed")
    assert "--kind image" in error.value.hint


def test_what_does_not_fit_an_image_is_refused() -> None:
    refuse_image(10 * 10**9, [TORCH])
    with pytest.raises(UserError, match=r"12\.0 GB.*Lambda takes 10\.0 GB"):
        refuse_image(12 * 10**9, [TORCH])


def test_nothing_is_downloaded_for_a_layer_that_cannot_fit(
    tmp_path: Path, locked: list[Locked], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked.append(TORCH)
    monkeypatch.setattr(make, "unpack", lambda *_: pytest.fail("it was downloaded"))
    with pytest.raises(TooLargeError):
        Layers(FunctionsSettings(), lambda _: None).make(None, tmp_path, push=False)


def test_a_layer_that_only_turns_out_too_large_when_it_is_unpacked_is_not_sent(
    tmp_path: Path, locked: list[Locked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "unpack", lambda *_: 260 << 20)
    monkeypatch.setattr(make, "publish", lambda *_: pytest.fail("it was sent"))
    with pytest.raises(TooLargeError, match="unzipped"):
        Layers(FunctionsSettings(), lambda _: None).make(None, tmp_path, push=True)


@pytest.mark.parametrize(("size", "words"), [(3 << 19, "1.5 MB"), (182 << 20, "182 MB"), (10 * 10**9, "10.0 GB")])
def test_sizes_are_said_as_aws_says_them(size: int, words: str) -> None:
    assert in_words(size) == words


# The lock


def test_the_lock_has_hashes_and_says_where_packages_are_found(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--extra-index-url https://download.pytorch.org/whl/cpu\ntorch\n")
    text = lock.lock_text([TORCH], file)
    assert text == "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch==2.13.0 --hash=sha256:ab12\n"


@pytest.mark.parametrize("option", ["--index-url https://ada:secret@index/simple", "-i=https://token@index/simple"])
def test_an_index_with_a_password_is_refused(tmp_path: Path, option: str) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"{option}\ntorch\n")
    with pytest.raises(UserError, match="an index with a password"):
        lock.lock_text([TORCH], file)


def test_what_is_not_from_an_index_is_refused() -> None:
    found = {
        "metadata": {"name": "mine", "version": "1"},
        "download_info": {"url": "file:///mine.whl"},
        "is_direct": True,
    }
    with pytest.raises(UserError, match="mine comes from"):
        lock._locked(found)


@pytest.mark.slow
def test_packages_are_found_for_the_runtime_with_what_mlcd_needs_and_unpacked_as_locked(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("threadpoolctl\n")
    try:
        packages = lock.resolve(file, "python3.13")
    except UserError as error:
        pytest.skip(f"there is no package index here: {error.message}")
    assert {"numpy", "obstore", "threadpoolctl"} <= {package.name for package in packages}
    assert all(len(package.sha256) == 64 and package.bytes > 0 for package in packages)
    size = lock.unpack(lock.lock_text(packages, file), "python3.13", tmp_path / "python")
    assert size > sum(package.bytes for package in packages)
    assert list((tmp_path / "python" / "numpy").rglob("*cpython-313-x86_64-linux-gnu.so"))
    assert not list((tmp_path / "python").rglob("tests"))


def test_packages_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--no-index\nno-such-package-of-mlcd\n")
    with pytest.raises(UserError, match="pip cannot have these packages"):
        lock.resolve(file, "python3.13")


# What an image is built from


def test_the_image_has_the_handler_of_this_very_mlcd(tmp_path: Path) -> None:
    write_context(tmp_path / "context", "public.ecr.aws/lambda/python:3.13", "numpy==1 --hash=sha256:1\n")
    code = "import mlcd_functions.handler as h, mlcd; print(h.__file__, mlcd.__file__)"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "context" / "handler")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert all(str(tmp_path) in path for path in done.stdout.split())


def test_aws_base_has_the_runtimes_client_and_another_gets_it(tmp_path: Path) -> None:
    for base, entry in (("public.ecr.aws/lambda/python:3.13", False), ("python:3.13-slim", True)):
        write_context(tmp_path, base, "")
        dockerfile = (tmp_path / "Dockerfile").read_text()
        assert dockerfile.startswith(f"FROM {base}\n")
        assert ('ENTRYPOINT ["python", "-m", "awslambdaric"]' in dockerfile) is entry is not has_client(base)
        assert 'CMD ["mlcd_functions.handler.handle"]' in dockerfile


def test_the_same_content_has_the_same_digest(tmp_path: Path) -> None:
    first, again, other = (
        write_context(tmp_path / name, "python:3.13", text) for name, text in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    assert first == again != other


def test_a_folder_with_anything_else_is_left_as_it_is(tmp_path: Path, locked: list[Locked]) -> None:
    """`--output .` in a project must not cost the project."""
    (tmp_path / "train.py").write_text("mine")
    with pytest.raises(UserError, match=r"is not empty: it has train\.py"):
        images().make(None, tmp_path, "", push=False)
    assert (tmp_path / "train.py").read_text() == "mine"
    with pytest.raises(UserError, match=r"train\.py is a file"):
        images().make(None, tmp_path / "train.py", "", push=False)
    with pytest.raises(UserError, match=r"train\.py is a file"):
        Layers(FunctionsSettings(), lambda _: None).make(None, tmp_path / "train.py", push=False)


@pytest.mark.parametrize("name", ["Dockerfile", "requirements.lock", "handler"])
def test_a_file_of_someone_elses_is_left_whatever_it_is_called(tmp_path: Path, locked: list[Locked], name: str) -> None:
    """`--output docker`, where the user's own Dockerfile is."""
    (tmp_path / name).write_text("FROM python:3.13\nCOPY train.py /\n")
    with pytest.raises(UserError, match=f"is not empty: it has {name}"):
        images().make(None, tmp_path, "", push=False)
    assert (tmp_path / name).read_text() == "FROM python:3.13\nCOPY train.py /\n"


def test_what_was_made_before_is_replaced(tmp_path: Path, locked: list[Locked]) -> None:
    (tmp_path / "layer.zip").write_bytes(b"as a layer was made before")
    for _ in range(2):
        images().make(None, tmp_path, "", push=False)
    assert not (tmp_path / "layer.zip").exists()


# Engines


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker whose daemon does not run, and a podman that writes down what it is asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    said = tmp_path / "said"
    (tools / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tools / "podman").write_text(
        f'#!/bin/sh\necho "$@" >> {said}\n'
        f'case "$1" in login) cat >> {said}; echo >> {said};; image) echo 1234567;; build) [ ! -e {tmp_path}/broken ];; esac\n'
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return said


def test_the_first_engine_that_works_is_taken(stand_ins: Path) -> None:
    assert find_engine() == Engine("podman")
    with pytest.raises(UserError, match="docker does not answer here"):
        find_engine("docker")
    with pytest.raises(UserError, match="No container engine is called 'rkt'"):
        find_engine("rkt")


def test_without_an_engine_the_commands_are_told(tmp_path: Path, locked: list[Locked]) -> None:
    made = images().make(None, tmp_path / "context", "", push=True)
    (build,) = made.todo
    assert build.startswith("docker build --platform linux/amd64 --provenance=false --tag mlcd-functions:")
    assert build.endswith(str(tmp_path / "context"))
    assert made.setting == ""


def test_an_image_that_is_too_large_is_built_and_not_sent(
    tmp_path: Path, locked: list[Locked], stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "size", lambda *_: 11 * 10**9)
    monkeypatch.setattr(Repository, "find", lambda *_: None)
    with pytest.raises(UserError, match=r"11\.0 GB"):
        images(Engine("podman"), repository_of(URI)).make(None, tmp_path / "context", "", push=True)
    assert "push" not in stand_ins.read_text()


@pytest.mark.usefixtures("account")
def test_an_image_is_built_sent_once_and_found_by_the_check(
    tmp_path: Path, locked: list[Locked], stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ecr = boto3.client("ecr", REGION)
    repository, real = repository_of(URI), engines.run

    def run(command: list[str], given: str = "") -> None:
        real(command, given)
        if command[1] == "push":
            ecr.put_image(
                repositoryName="mlcd-functions",
                imageManifest=json.dumps(MANIFEST),
                imageTag=command[2].rpartition(":")[2],
            )

    monkeypatch.setattr(make, "run", run)
    maker = images(Engine("podman"), repository)
    with pytest.raises(UserError, match="There is no repository") as error:
        maker.make(None, tmp_path / "context", "", push=True)
    assert "aws ecr create-repository" in error.value.hint
    ecr.create_repository(repositoryName="mlcd-functions")
    made = maker.make(None, tmp_path / "context", "", push=True)
    assert made.bytes == 1234567
    asked = stand_ins.read_text().splitlines()
    told = "\n".join(asked)
    assert [line.split()[0] for line in asked if " " in line] == ["build", "image", "login", "push"]
    assert f"AWS --password-stdin {repository.registry}" in told
    assert repository.password() in told, "through standard input"
    image = json.loads(made.setting.partition(" = ")[2])
    assert image.startswith(f"{URI}@sha256:")
    again = maker.make(None, tmp_path / "context", "", push=True)
    assert (again.setting, stand_ins.read_text().splitlines()) == (made.setting, asked), "nothing was built again"
    assert image_of(image) is not None
    assert "image" in checks._package(FunctionsSettings(image=image))


@pytest.mark.usefixtures("account")
def test_an_image_that_is_not_there_is_told_by_the_check_with_what_makes_it() -> None:
    boto3.client("ecr", REGION).create_repository(repositoryName="mlcd-functions")
    found = checks._found("package", lambda: checks._package(FunctionsSettings(image=f"{URI}:1")))
    assert not found.ok
    assert f"--repository {URI}" in found.hint


def test_an_image_of_another_region_is_told_by_the_check() -> None:
    settings = FunctionsSettings(image=f"{URI}:1", region="eu-west-1")
    found = checks._found("package", lambda: checks._package(settings))
    assert not found.ok
    assert "is in us-east-1, and the functions are in eu-west-1" in found.detail


@pytest.mark.parametrize("uri", ["docker.io/me/mlcd", "public.ecr.aws/lambda/python:3.13", "mlcd"])
def test_images_that_lambda_does_not_run_are_refused(uri: str) -> None:
    with pytest.raises(UserError, match="no repository of ECR"):
        repository_of(uri)


# Layers


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "python" / "some").mkdir(parents=True)
    (tmp_path / "python" / "some" / "__init__.py").write_text("x = 1\n")
    return tmp_path / "layer.zip", layers.zip_layer(tmp_path / "python", tmp_path / "layer.zip")


def test_a_layers_zip_is_as_lambda_wants_it_and_always_the_same(packed: tuple[Path, str], tmp_path: Path) -> None:
    file, digest = packed
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["python/some/__init__.py"]
    assert layers.zip_layer(tmp_path / "python", tmp_path / "again.zip") == digest


@pytest.mark.usefixtures("account")
def test_a_layer_is_published_once_and_functions_of_a_zip_have_it(packed: tuple[Path, str], tmp_path: Path) -> None:
    settings = FunctionsSettings(endpoint="aws", role=f"arn:aws:iam::{ACCOUNT}:role/trainer")
    trust = {"Version": "2012-10-17", "Statement": []}
    boto3.client("iam").create_role(RoleName="trainer", AssumeRolePolicyDocument=json.dumps(trust))
    arn = layers.publish(settings, *packed)
    assert layers.publish(settings, *packed) == arn
    with_layer = FunctionsSettings(endpoint="aws", role=settings.role, layers=arn)
    Lambdas(with_layer, tmp_path).create("mlcd-t1", 1769, {})  # no NumPy is downloaded: the layer has it
    made = boto3.client("lambda", REGION).get_function(FunctionName="mlcd-t1")["Configuration"]
    assert [layer["Arn"] for layer in made["Layers"]] == [arn]
    assert "mlcd-functions with" in checks._package(with_layer)


def test_a_large_layer_needs_a_bucket(packed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SENT_BYTES", 10)
    with pytest.raises(UserError, match="go through S3"):
        layers._content(FunctionsSettings(), *packed)


def test_a_large_layer_goes_through_the_bucket(
    packed: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SENT_BYTES", 10)
    server = moto.server.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": REGION,
        }.items():
            monkeypatch.setenv(name, value)
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="bucket")
        content = layers._content(FunctionsSettings(endpoint="aws", objects="s3://bucket/some/prefix"), *packed)
        stored = s3.get_object(Bucket=content["S3Bucket"], Key=content["S3Key"])["Body"].read()
    finally:
        server.stop()
    assert stored == packed[0].read_bytes()
