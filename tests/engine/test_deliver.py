"""The model is what the program made, and nothing that a link of it leads to."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.core.task import TaskFolder
from mlcd.engine.archive import zip_folder
from mlcd.engine.context import JobContext, job_folder
from mlcd.engine.control import controlling
from mlcd.engine.controller import open_cloud
from mlcd.engine.deliver import deliver
from mlcd.engine.tasks import task_folder
from small_jobs import MakeJob


def handed_over(client: Client, make_job: MakeJob, outputs: Path) -> tuple[Path, str]:
    """The model of a job whose program left these outputs, and the warnings."""
    job_id = client.submit(client.load(make_job()))
    folder = TaskFolder(task_folder(job_folder(client.settings, job_id), f"{job_id}-t1"))
    folder.root.mkdir(parents=True)
    outputs.rename(folder.outputs)
    cloud = open_cloud(client.settings, client.store.job(job_id))
    with controlling(client.store, job_id) as token:
        assert token is not None
        model = deliver(JobContext(client.store, cloud, client.settings, job_id, token, {}), f"{job_id}-t1")
    cloud.close()
    return Path(model), " ".join(event.message for event in client.events(job_id))


def names_in_zip(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(b"".join(zip_folder(folder)))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    (folder / "model.pt").write_text("weights")
    return folder


def test_links_out_of_the_outputs_are_neither_in_the_model_nor_in_the_zip(
    client: Client, make_job: MakeJob, outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.key").write_text("secret")
    (outputs / "root").symlink_to("/")
    (outputs / "key.pt").symlink_to(tmp_path / "secret.key")
    (outputs / "zero").symlink_to("/dev/zero")
    os.mkfifo(outputs / "pipe")
    model, told = handed_over(client, make_job, outputs)
    assert [path.name for path in model.iterdir()] == ["model.pt"]
    assert names_in_zip(model) == {"model.pt": b"weights"}
    assert "Not in the model, because it leads out of its folder or is no file: key.pt, pipe, root and 1 more" in told


def test_links_within_the_outputs_are_in_both(client: Client, make_job: MakeJob, outputs: Path) -> None:
    (outputs / "latest.pt").symlink_to("model.pt")
    model, told = handed_over(client, make_job, outputs)
    assert (model / "latest.pt").readlink() == Path("model.pt")
    assert names_in_zip(model) == {"latest.pt": b"weights", "model.pt": b"weights"}
    assert "Not in the model" not in told


def test_outputs_that_are_a_link_themselves_are_none(
    client: Client, make_job: MakeJob, outputs: Path, tmp_path: Path
) -> None:
    outputs.rename(tmp_path / "elsewhere")
    outputs.symlink_to(tmp_path / "elsewhere")
    model, told = handed_over(client, make_job, outputs)
    assert (str(model), "left no model" in told) == (".", True)


@pytest.mark.slow
def test_a_program_whose_outputs_link_to_everything_is_done_in_time(
    client: Client, make_job: MakeJob, tmp_path: Path
) -> None:
    (tmp_path / "secret.key").write_text("secret")
    run = (
        f'ln -s / "$MLCD_OUTPUT_DIR/root"; ln -s {tmp_path}/secret.key "$MLCD_OUTPUT_DIR/key.pt"; '
        f"ln -s {tmp_path}/secret.key best.pt; mkfifo pipe.pt; echo weights > model.pt; python train.py"
    )
    job_id = client.submit(client.load(make_job(run=run)))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    packed = names_in_zip(Path(view.model))
    assert sorted(packed) == ["model.json", "model.pt"]
    assert packed["model.pt"] == b"weights\n"
