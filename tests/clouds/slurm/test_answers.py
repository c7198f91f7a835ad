"""What Slurm's commands say on clusters that are not the tests' own, and what is done then. Nothing here needs a cluster.

The commands are small files on the PATH: they print what a test wants, and write down what they were told.
"""

from __future__ import annotations

import ctypes
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clouds.slurm.test_parts import JOB, NODES
from mlcd.clouds.remote.base import BusyError, Machine, RefusedError, UnreachableError
from mlcd.clouds.slurm import host
from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.kinds import read_kinds
from mlcd.clouds.slurm.login import Here
from mlcd.clouds.slurm.machines import REPORT_SECONDS, SlurmMachines, expanded
from mlcd.clouds.slurm.prices import read_prices
from mlcd.clouds.slurm.script import hostlist, more_words
from mlcd.clouds.slurm.states import explained, in_words, outcome_of, refusal_of_waiting
from mlcd.clouds.slurm.tables import read_ended, read_expected_start, read_jobs, read_nodes, read_submitted
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import EndCause
from mlcd.errors import MlcdError, NoCapacityError, UserError

TASK = "t1"
CPU = Deployment(Offer("slurm", InstanceType("cpu+fast", 16, 62.5), 0.0, 2), 1)
TOGETHER = "c1|cpu|up|16|64000|fast|(null)|idle|2-00:00:00|1-infinite\n"


class Notebook:
    """What runners leave for each other."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def read_notes(self) -> dict[str, str]:
        return self.words

    def note(self, name: str, value: str) -> None:
        self.words[name] = value


class Commands:
    """Slurm's commands on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sinfo", "squeue", "sbatch", "scancel", "scontrol", "sacct"):
            self.say(name, "")

    def say(self, name: str, text: str, code: int = 0) -> None:
        """From now on the command prints this."""
        log, file = shlex.quote(str(self.folder / "told")), self.folder / name
        file.write_text(f"#!/bin/bash\necho {name} \"$@\" >> {log}\ncat <<'END'\n{text}\nEND\nexit {code}\n")
        file.chmod(0o755)

    def told(self, name: str) -> list[str]:
        """All that the command was told, a line for each call."""
        file = self.folder / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.split()[0] == name]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    made = Commands(tmp_path / "bin")
    made.say("sinfo", TOGETHER)
    return made


@pytest.fixture
def notes() -> Notebook:
    return Notebook()


@pytest.fixture
def machines(commands: Commands, notes: Notebook, tmp_path: Path) -> SlurmMachines:
    return opened(tmp_path, notes)


def opened(tmp_path: Path, notes: Notebook) -> SlurmMachines:
    return SlurmMachines(tmp_path, {"folder": str(tmp_path / "shared")}, notes)


def queue(*jobs: tuple[int, str]) -> str:
    """As squeue prints jobs of the task, which began a while ago."""
    ago = int(time.time()) - 3600
    rows = [f"{id_}|mlcd-{TASK}|{state}|{ago}|{ago + 90000}|{ago}|1|None|mlcd/{TASK}/j/1" for id_, state in jobs]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("gres", "asked", "gpus", "model"),
    [
        ("gpu:a100:4(S:0-1)", "gpu:a100:4", 4, "a100"),
        ("gpu:4", "gpu:4", 4, ""),
        ("gpu:4(S:0,1)", "gpu:4", 4, ""),
        ("gpu:h100:8(S:0-1),shard:h100:32(S:0-1)", "gpu:h100:8", 8, "h100"),
        ("gpu:tesla:2(S:0),mps:tesla:400(S:0)", "gpu:tesla:2", 2, "tesla"),
        ("gpu:a100:2(S:0),gpu:v100:2(S:1)", "gpu:a100:2,gpu:v100:2", 4, "a100"),
        ("gpu:a100_1g.5gb:7(S:0)", "gpu:a100_1g.5gb:7", 1, "a100_1g.5gb"),  # slices: all are paid, one is used
        ("bandwidth:lustre:no_consume:4G,gpu:1,tmpdisk:3500G", "gpu:1,tmpdisk:3500G", 1, ""),
        ("gpu_mem:80,shard:4", "gpu_mem:80", 0, ""),
        ("(null)", "", 0, ""),
    ],
)
def test_generic_resources_are_asked_for_as_sbatch_takes_them(gres: str, asked: str, gpus: int, model: str) -> None:
    (kind,) = read_kinds(read_nodes(f"g1|gpu|up|64|512000|(null)|{gres}|idle|infinite|1-infinite"))
    assert (kind.gres, kind.gpus, kind.gpu_model) == (asked, gpus, model)
    assert kind.gpus_to_pay == sum(int(word.split(":")[-1]) for word in asked.split(",") if word.startswith("gpu:"))


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        *((state, True) for state in ("idle", "mixed", "allocated", "allocated+", "completing", "planned", "reserved")),
        *((state, True) for state in ("idle~", "idle#", "mixed-", "idle$", "allocated@", "idle^", "idle!", "idle%")),
        *((state, True) for state in ("powered_down", "powering_up#", "power_down~", "blocked", "reboot^", "reboot@")),
        *((state, False) for state in ("idle*", "mixed*", "down", "down*", "down~", "drained", "drained*", "drng")),
        *((state, False) for state in ("draining@", "fail", "failing", "maint", "future", "inval", "unknown")),
    ],
)
def test_nodes_take_jobs_by_their_state_whatever_is_hung_on_to_it(state: str, usable: bool) -> None:
    (row,) = read_nodes(f"c1|cpu|up|16|64000|(null)|(null)|{state}|infinite|1-infinite")
    assert row.usable is usable


def test_a_kind_keeps_its_name_while_nodes_of_another_size_are_down() -> None:
    before = {kind.name for kind in read_kinds(read_nodes(NODES))}
    after = {kind.name for kind in read_kinds(read_nodes(NODES.replace("(null)|mixed", "(null)|down*")))}
    assert before - after == {"cpu+avx+intel-32c-64000m"}


def test_lines_that_are_no_nodes_are_passed_over() -> None:
    assert read_nodes("a|b|c|1|much|f|g|idle|infinite|1") == []


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["c1", "c2", "c3", "c5"], "c[1-3,5]"),
        (["c8", "c9", "c10", "c11"], "c[10-11],c[8-9]"),
        (["rack1-n01", "rack1-n02", "rack2-n07", "login"], "rack1-n[01-02],rack2-n[07],login"),
        ([], ""),
    ],
)
def test_nodes_are_named_as_shortly_as_slurm_does(names: list[str], short: str) -> None:
    assert hostlist(names) == short


def test_many_nodes_are_one_short_word() -> None:
    assert len(hostlist(f"node{number:05}" for number in range(20_000))) < 100


@pytest.mark.parametrize("options", ["--array=1-9", "-J other", "-Nall", "--requeue", "--job-name x", "--time=9"])
def test_what_mlcd_itself_says_to_sbatch_is_refused_among_its_options(options: str) -> None:
    with pytest.raises(UserError, match=r"slurm\.options"):
        more_words(f"--licenses=a {options}")


def test_other_options_are_passed_on_and_those_that_cannot_be_read_are_refused() -> None:
    words = ["--reservation=a b", "-C", "avx", "--constraint=x", "--nodelist=n1"]
    assert more_words(shlex.join(words)) == words
    with pytest.raises(UserError, match="cannot be read"):
        more_words("--comment='open")


@pytest.mark.parametrize(
    ("state", "waits", "holds", "ended"),
    [
        ("PENDING", True, False, False),
        ("SPECIAL_EXIT", True, False, False),  # held by an administrator's script
        ("RESV_DEL_HOLD", True, False, False),
        ("CONFIGURING", False, True, False),
        ("COMPLETING", False, False, False),
        ("LAUNCH_FAILED", False, False, False),
        ("SOMETHING_NEW", False, False, False),  # may not be over: it is cancelled
        ("PREEMPTED", False, False, True),
        ("CANCELLED by 1000", False, False, True),
        ("CANCELLED+", False, False, True),
    ],
)
def test_only_jobs_that_are_known_to_be_over_are_over(state: str, waits: bool, holds: bool, ended: bool) -> None:
    (job,) = read_jobs(f"7|mlcd-t1|{state}|N/A|N/A|1795098000|1|None|(null)")
    assert (job.waits, job.holds, job.ended) == (waits, holds, ended)


def test_members_of_arrays_and_lines_of_other_kinds_are_not_our_jobs() -> None:
    assert read_jobs(queue((7, "RUNNING")).replace("7|", "7_[1-4]|", 1)) == []
    assert read_jobs(queue((7, "RUNNING")).replace("7|", "7+0|", 1)) == []
    assert read_jobs("CLUSTER: far\nslurm_load_jobs error: Unable") == []


def test_accounting_tells_who_cancelled_and_steps_are_no_jobs() -> None:
    said = "7|mlcd-t1|CANCELLED by 1000|1795098000|1795098100\n7.batch|batch|FAILED|1|2\n8|mlcd-t1|RUNNING|1795098000|Unknown\n"
    cancelled, running = read_ended(said)
    assert (cancelled.state, cancelled.ends_at) == ("CANCELLED", 1795098100.0)
    assert (running.state, running.ends_at) == ("RUNNING", None)


@pytest.mark.parametrize("state", ["LAUNCH_FAILED", "RECONFIG_FAIL", "BOOT_FAIL"])
def test_nodes_that_could_not_begin_are_lost(state: str) -> None:
    told = outcome_of(replace(JOB, state=state))
    assert told is not None
    assert told.cause is EndCause.NODE_LOST


@pytest.mark.parametrize(
    ("reason", "hopeless"),
    [
        ("AssocGrpCPUMinutesLimit", True),
        ("QOSGrpBillingMinutes", True),
        ("AssocGrpGRESMinutes", True),
        ("launch_failed_requeued_held", True),
        ("AssocGrpCPURunMinutesLimit", False),  # others' jobs end
        ("AssocGrpNodeLimit", False),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", False),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions", False),
    ],
)
def test_what_an_account_has_used_up_is_not_waited_for(reason: str, hopeless: bool) -> None:
    told = refusal_of_waiting(replace(JOB, state="PENDING", reason=reason))
    assert isinstance(told, NoCapacityError) is hopeless


@pytest.mark.parametrize(
    "said",
    [
        "allocation failure: Requested nodes are busy",
        "allocation failure: Required node not available (down, drained or reserved)",
        "sbatch: error: CPU count per node can not be satisfied",
        "allocation failure: Required partition not available (inactive or drain)",
    ],
)
def test_nodes_that_cannot_be_had_now_send_the_search_elsewhere(said: str) -> None:
    assert type(in_words("plan a job", said)) is NoCapacityError


@pytest.mark.parametrize("state", ["SUSPENDED", "STOPPED"])
def test_a_job_that_is_suspended_for_another_one_is_taken_and_not_lost(state: str) -> None:
    told = explained(Outcome(EndCause.NODE_LOST, "node 0 does not answer"), replace(JOB, state=state), False)
    assert (told.cause, state in told.reason) == (EndCause.SPOT_NOTICE, True)


def test_the_number_of_a_job_comes_after_the_greeting_of_the_shell() -> None:
    assert read_submitted("Users today:\n42\n4711;far\n") == 4711


def test_a_date_is_no_expected_start() -> None:
    assert read_expected_start("sbatch: Job 6 to start at 2026-11-19T20:00:00 using 4 processors") is None


@pytest.mark.parametrize("text", ["partition,per,price\ncpu,core\n", "partition,per,price\ncpu\n"])
def test_a_price_list_with_short_lines_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.csv").write_text(text)
    with pytest.raises(UserError, match="cannot be read"):
        read_prices(str(tmp_path / "prices.csv"), 1.0)


def test_a_price_list_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_bytes(b"\xef\xbb\xbfpartition,per,price\r\n*,core,0.5\r\n")
    assert read_prices(str(tmp_path / "prices.csv"), 1.0).usd_per_hour("cpu", 4, 0) == 2.0


def test_settings_of_mlcd_do_not_travel_with_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLCD_DATABASE", "postgresql://me:secret@db/mlcd")
    assert "secret" not in Here().run("env").output


@pytest.mark.parametrize("folder", ["scratch/mlcd", "$SCRATCH/mlcd", "~", "~other/mlcd"])
def test_a_folder_that_is_no_absolute_path_is_refused(folder: str) -> None:
    with pytest.raises(UserError, match=r"slurm\.folder"):
        expanded(Here(), folder)


def test_a_login_node_that_does_not_tell_its_home_is_asked_again() -> None:
    class Away(Here):
        def run(self, command: str, *more: Any) -> Any:
            return super().run("echo quota exceeded; false")

    with pytest.raises(UnreachableError, match="quota exceeded"):
        expanded(Away(), "~/.mlcd-slurm")


def test_what_sbatch_is_told_has_no_environment_and_no_secret(
    machines: SlurmMachines, commands: Commands, notes: Notebook, tmp_path: Path
) -> None:
    commands.say("sbatch", "4711")
    (machine,) = machines.acquire(TASK, "j", CPU, [])
    planned, submitted = commands.told("sbatch")
    assert "--test-only" in planned
    assert f"--job-name=mlcd-{TASK}" in submitted
    assert "--export" not in submitted
    assert notes.words["job"] == "4711"
    assert machine.billed_from == 0.0
    assert (tmp_path / "shared" / f"mlcd-{TASK}").stat().st_mode & 0o777 == 0o700


def test_a_job_whose_number_was_never_heard_is_looked_for_until_it_is_cancelled(
    machines: SlurmMachines, commands: Commands, notes: Notebook, tmp_path: Path
) -> None:
    assert not machines.may_have_rented
    commands.say("sbatch", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", 1)
    with pytest.raises(BusyError):
        machines.acquire(TASK, "j", CPU, [])
    assert not machines.may_have_rented, "the plan was refused, and nothing submitted"
    commands.say("sbatch", "sbatch: Job 9 to start at 1795098218 using 16 processors")  # but no number
    with pytest.raises(MlcdError):
        machines.acquire(TASK, "j", CPU, [])
    assert machines.may_have_rented
    assert opened(tmp_path, notes).may_have_rented, "the next runner knows"


def test_of_two_jobs_of_a_task_the_first_is_taken_and_the_other_cancelled(
    machines: SlurmMachines, commands: Commands, notes: Notebook
) -> None:
    commands.say("sbatch", "12")
    acquired = machines.acquire(TASK, "j", CPU, [])
    commands.say("squeue", queue((12, "PENDING"), (11, "RUNNING")))
    machines.locate(acquired)
    assert commands.told("scancel") == ["scancel --quiet 12"]
    assert notes.words["job"] == "11"


def test_what_is_found_again_is_not_submitted_again(
    machines: SlurmMachines, commands: Commands, notes: Notebook
) -> None:
    commands.say("squeue", queue((11, "PENDING")))
    machines.acquire(TASK, "j", CPU, [])
    assert commands.told("sbatch") == []
    assert notes.words["job"] == "11"


def test_a_job_in_a_state_that_nobody_knows_is_cancelled(machines: SlurmMachines, commands: Commands) -> None:
    commands.say("squeue", queue((11, "SPECIAL_EXIT"), (12, "SOMETHING_NEW"), (13, "COMPLETED")))
    machines.release([Machine("mlcd-t1-0", "", "", 0.0, details={"task": TASK})])
    assert commands.told("scancel") == ["scancel --quiet 11 12"]


def test_nodes_that_are_booted_for_a_job_have_their_time(
    machines: SlurmMachines, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.say("sbatch", "11")
    acquired = machines.acquire(TASK, "j", CPU, [])
    commands.say("squeue", queue((11, "CONFIGURING")))
    located = machines.locate(acquired)
    assert [machine.billed_from > 0 for machine in located] == [True]
    assert machines.locate(located) == located, "an hour of booting is not too long"
    ahead = passing(monkeypatch)
    commands.say("squeue", queue((11, "RUNNING")))
    ahead(2.0)
    assert machines.locate(located) == located, "it has only just begun to run"
    ahead(REPORT_SECONDS + 1.0)
    with pytest.raises(RefusedError, match="reported"):
        machines.locate(located)


def passing(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets the monotonic clock run ahead by so much more."""
    clock, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock() + ahead[0])

    def go(seconds: float) -> None:
        ahead[0] += seconds

    return go


def test_a_shared_file_system_that_is_away_for_a_moment_does_not_end_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *told: None)  # this process is no node
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(prctl=lambda *told: 0))
    node = host.Host(tmp_path, 60.0)

    def stale(path: Path) -> bool:
        raise OSError(116, "Stale file handle", str(path))

    with monkeypatch.context() as away:
        away.setattr(Path, "is_dir", stale)
        assert not node._over()
    assert not node._over()
    tmp_path.rename(tmp_path.with_name("removed"))
    assert node._over()


PARTITIONS = """PartitionName=cpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE MaxNodes=4
PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO QoS=gpu-part DefaultTime=NONE MaxNodes=UNLIMITED
"""
QOS = """normal|||||
gpu-part|DenyOnLimit|12:00:00|gres/gpu=4||mem=4T,node=9
short||01:00:00|cpu=32|node=1|
urgent|OverPartQOS|2-00:00:00|gres/gpu:a100=8||
"""


@pytest.mark.parametrize(
    ("qos", "partition", "nodes", "seconds"),
    [
        ("", "cpu", 2, 2 * 86400),
        ("", "gpu", 1, 43200),  # four GPUs are one node
        ("short", "cpu", 1, 3600),
        ("short", "gpu", 0, 0),  # 32 cores are half a node
        ("urgent", "gpu", 1, 2 * 86400),  # in the place of the partition's; of GPUs of any type it says nothing
        ("unheard-of", "cpu", 2, 2 * 86400),
    ],
)
def test_limits_of_the_qos_are_read_first(
    commands: Commands, qos: str, partition: str, nodes: int, seconds: int
) -> None:
    commands.say("sinfo", NODES)
    commands.say("scontrol", PARTITIONS)
    commands.say("sacctmgr", QOS)
    kinds = {kind.partition: kind for kind in Slurm(Here()).kinds(qos) if "32c" not in kind.name}
    kind = kinds.get(partition)
    assert (kind.max_nodes, kind.max_seconds) == (nodes, seconds) if kind else nodes == 0


def test_clusters_without_accounting_have_the_limits_of_their_partitions(commands: Commands) -> None:
    commands.say("sinfo", NODES)
    commands.say("scontrol", PARTITIONS)
    commands.say("sacctmgr", "You are not running a supported accounting_storage plugin", 1)
    assert Slurm(Here()).kinds("short") == read_kinds(read_nodes(NODES))
    commands.say("scontrol", PARTITIONS.replace("gpu-part", "N/A"))
    told = len(commands.told("sacctmgr"))
    assert Slurm(Here()).kinds() == read_kinds(read_nodes(NODES))
    assert len(commands.told("sacctmgr")) == told, "nobody asks for what no partition has"
