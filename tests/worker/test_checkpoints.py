import errno
import json
import tempfile
from pathlib import Path

import pytest

import mlcd
from mlcd.worker import checkpoints
from mlcd.worker.checkpoints import MANIFEST, Facts, complete_checkpoints
from worker.sessions import Inside


def save(root: Path, content: str, samples: float = 0.0) -> Path:
    folder = checkpoints.begin(root)
    (folder / "sub").mkdir()
    (folder / "sub" / "state.pt").write_text(content)
    return checkpoints.commit(folder, Facts(samples=samples, steps=3, metrics={"loss": 0.5}))


def test_a_checkpoint_comes_back_with_what_is_known_of_it(tmp_path: Path) -> None:
    path = save(tmp_path, "hello", samples=640)
    (found,) = complete_checkpoints(tmp_path)
    assert path.name == "000001-640"
    assert (found.path, found.facts.samples, found.facts.steps, found.bytes) == (path, 640, 3, 5)
    assert found.facts.metrics == {"loss": 0.5}
    assert found.is_intact()


def test_the_newest_comes_first_even_if_it_has_fewer_samples(tmp_path: Path) -> None:
    save(tmp_path, "a", samples=900)
    newest = save(tmp_path, "b", samples=100)
    assert complete_checkpoints(tmp_path)[0].path == newest


@pytest.mark.parametrize("damage", ["missing", "short", "changed", "no manifest", "torn manifest"])
def test_a_broken_checkpoint_is_ignored(inside: Inside, tmp_path: Path, damage: str) -> None:
    inside()
    root = tmp_path / "checkpoints"
    good, bad = save(root, "old"), save(root, "new")
    state, manifest = bad / "sub" / "state.pt", bad / MANIFEST
    {
        "missing": state.unlink,
        "short": lambda: state.write_text("ne"),
        "changed": lambda: state.write_text("nee"),
        "no manifest": manifest.unlink,
        "torn manifest": lambda: manifest.write_text(manifest.read_text()[:-20]),
    }[damage]()
    assert mlcd.last_checkpoint() == good


def test_a_checkpoint_that_was_not_committed_is_not_there(tmp_path: Path) -> None:
    folder = checkpoints.begin(tmp_path)
    (folder / "state.pt").write_text("half")
    assert complete_checkpoints(tmp_path) == []


def test_a_missing_folder_holds_no_checkpoints(tmp_path: Path) -> None:
    assert complete_checkpoints(tmp_path / "nowhere") == []


def test_pruning_keeps_the_newest_complete_ones_and_removes_what_was_half_made(tmp_path: Path) -> None:
    kept = [save(tmp_path, str(number)) for number in range(4)][1:]
    (kept[1] / MANIFEST).unlink()  # newer than the oldest kept: not ours to judge
    under_way = checkpoints.begin(tmp_path)
    (tmp_path / ".partial-999999999-abc").mkdir()  # no process has that number
    checkpoints.prune(tmp_path, keep=2)
    assert sorted(tmp_path.iterdir()) == [under_way, *kept]


def test_the_context_commits_samples_of_all_ranks_with_the_batch_at_hand(inside: Inside, tmp_path: Path) -> None:
    inside(WORLD_SIZE=2, MLCD_SAMPLES_BEFORE=100)
    for number, _ in enumerate(mlcd.steps([["a", "b", "c"]] * 5)):
        if number == 1:
            mlcd.report(loss=0.25)
            with mlcd.checkpoint() as folder:
                (folder / "state.txt").write_text("x")
    (found,) = complete_checkpoints(tmp_path / "checkpoints")
    assert (found.facts.samples, found.facts.steps) == (100 + 2 * 3 * 2, 2)
    assert found.facts.metrics == {"loss": 0.25}
    assert json.loads((found.path / MANIFEST).read_text())["task_id"] == "task-1"


def test_counts_go_on_from_the_checkpoint_that_was_loaded(inside: Inside, tmp_path: Path) -> None:
    save(tmp_path / "checkpoints", "state", samples=96)
    inside(MLCD_SAMPLES_BEFORE=500, MLCD_WORK_SAMPLES=100)
    assert mlcd.last_checkpoint() is not None
    assert len(list(mlcd.steps([["a", "b"]] * 5))) == 2


def test_a_program_that_counts_on_from_its_checkpoint_is_not_counted_twice(inside: Inside) -> None:
    inside()
    mlcd.report(step=50, samples=400)
    with mlcd.checkpoint(step=50):
        pass
    session = inside()
    mlcd.last_checkpoint()
    mlcd.report(step=60, samples=480)
    assert session.counts.now[1:] == (10, 80)
    assert session.stop.total_samples() == 480


def test_a_program_that_counts_from_zero_again_is_counted_beyond_what_it_had_done_before(
    inside: Inside,
) -> None:
    inside()
    mlcd.report(step=50, samples=400)
    with mlcd.checkpoint():
        pass
    session = inside()
    mlcd.last_checkpoint()
    for step in range(10, 81, 10):
        mlcd.report(step=step, samples=8 * step)
    assert session.counts.now[1:] == (80, 640)
    assert session.stop.total_samples() == 1040


@pytest.mark.parametrize("first", [205, 195])  # what it saved may be a little more or less than mlcd knows of
def test_a_program_that_saves_by_itself_and_counts_on_is_not_counted_twice(inside: Inside, first: int) -> None:
    session = inside(MLCD_SAMPLES_BEFORE=400, WORLD_SIZE=2, RANK=0, MLCD_WORK_SAMPLES=1000)
    mlcd.report(samples=first)
    mlcd.report(samples=300)
    assert session.counts.now.samples == 100
    assert session.stop.total_samples() == 600


def test_a_program_that_saves_by_itself_may_count_its_steps_alone(inside: Inside) -> None:
    session = inside(MLCD_SAMPLES_BEFORE=400, MLCD_LOCAL_BATCH_SIZE=8)
    mlcd.report(step=51)
    assert session.counts.now[1:] == (1, 8)


def test_where_the_whole_disk_is_full_the_checkpoint_goes_to_memory(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside()
    real = tempfile.mkdtemp

    def full(prefix: str, dir: str | None = None) -> str:  # noqa: A002  # as it is called there
        if dir is None:
            raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")
        return real(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    monkeypatch.setattr(checkpoints, "begin", lambda _root: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with mlcd.checkpoint() as folder:
        (folder / "state").write_text("x")
    assert mlcd.last_checkpoint() is None


def test_an_error_in_the_body_passes_through_and_nothing_is_committed(inside: Inside, tmp_path: Path) -> None:
    inside()
    with pytest.raises(KeyError), mlcd.checkpoint():
        raise KeyError
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_full_disk_costs_the_checkpoint_and_not_the_training(inside: Inside, tmp_path: Path) -> None:
    inside()
    kept = save(tmp_path / "checkpoints", "old")
    with mlcd.checkpoint():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert mlcd.last_checkpoint() == kept
    assert list((tmp_path / "checkpoints").iterdir()) == [kept]


def test_only_the_first_rank_commits(inside: Inside, tmp_path: Path) -> None:
    inside(RANK=1, WORLD_SIZE=2)
    with mlcd.checkpoint() as folder:
        (folder / "state.txt").write_text("x")
    assert not folder.exists()
    assert not (tmp_path / "checkpoints").exists()


def test_old_checkpoints_go_when_the_cloud_says_how_many_to_keep(inside: Inside, tmp_path: Path) -> None:
    inside(MLCD_CHECKPOINT_KEEP=2)
    for _ in range(4):
        with mlcd.checkpoint() as folder:
            (folder / "state.txt").write_text("x")
    assert [one.sequence for one in complete_checkpoints(tmp_path / "checkpoints")] == [4, 3]


def test_a_folder_that_cannot_be_written_to_does_not_stop_the_training(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file is in the way")
    inside()
    with mlcd.checkpoint() as folder:
        (folder / "state.txt").write_text("x")
    assert mlcd.last_checkpoint() is None
