"""The way to a Slurm cluster by ssh, and what `mlcd check slurm` says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clouds.slurm.test_tasks import Rented
from loopback_machines import open_door
from mlcd.clouds.accounts import check_cloud
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.core.task import TaskState
from mlcd.settings import Settings
from slurm_cluster import SlurmCluster


@pytest.fixture
def by_ssh(cluster: SlurmCluster, slurm_settings: SlurmSettings, tmp_path: Path) -> Iterator[SlurmSettings]:
    """A login node that only ssh leads to: this computer does not know the cluster."""
    pytest.importorskip("asyncssh", reason="pip install 'mlcd[slurm]'")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs sshd: apt-get install openssh-server")
    folder = tmp_path / "door"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, open_door(folder) as door:
        (folder / "home" / ".bash_profile").write_text(f"export SLURM_CONF={cluster.conf}\necho welcome\n")
        patch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
        yield replace(
            slurm_settings, login="127.0.0.1", user=door.user, port=door.port, key=str(door.key), folder="~/mlcd"
        )


@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
def test_a_login_node_behind_ssh_does_as_well(by_ssh: SlurmSettings, tmp_path: Path) -> None:
    rented = Rented(tmp_path, by_ssh)
    findings = {found.what: found for found in check_cloud(settings_with(by_ssh, tmp_path), "slurm")}
    assert all(found.ok for found in findings.values()), findings
    assert "on 127.0.0.1" in findings["commands"].detail
    task = rented.saving()
    handle = rented.launch(task, nodes=2)
    rented.wait(handle, lambda status: status.progress.samples > 30)
    rented.kill_runners()
    rented.cloud.stop(handle)
    assert rented.wait(handle).state is TaskState.STOPPED
    assert rented.saved() > 30
    assert list(rented.cloud.owned()) == []
    rented.cloud.close()


@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
def test_the_check_says_what_is_there_and_what_is_free_of_charge(slurm_settings: SlurmSettings, tmp_path: Path) -> None:
    found = {one.what: one for one in check_cloud(settings_with(replace(slurm_settings, prices=""), tmp_path), "slurm")}
    assert all(one.ok for one in found.values()), found
    assert found["version"].detail.startswith("slurm")
    assert "pair+small: 2 nodes of 2 cores" in found["partitions"].detail
    assert found["prices"].detail == "none for main, pair, short, urgent: free of charge"


def test_the_check_names_commands_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "id"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    (found,) = check_cloud(settings_with(SlurmSettings(), tmp_path), "slurm")
    assert not found.ok
    assert found.detail == "this computer has no sinfo, squeue, sbatch, scancel, srun."
    assert "slurm.login" in found.hint


def settings_with(slurm: SlurmSettings, home: Path) -> Settings:
    """Settings with these for the cloud."""
    return replace(Settings(home=home), clouds=(slurm,))
