"""Values that depend on the file's folder, the time and the environment."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from job_texts import complaint, job, with_run
from mlcd.core.jobfile import load_job, parse_job
from mlcd.core.serial import to_json

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()


def test_a_deadline_on_the_clock_is_kept_and_counted_from_now() -> None:
    found = job(with_run("deadline: 2026-11-17T14:00+01:00"), now=NOON - 600)
    assert (found.deadline_at, found.deadline_seconds) == (NOON + 3600, 4200.0)
    quoted = job(with_run("deadline: '2026-11-17 13:00:00Z'"), now=NOON)
    assert quoted.deadline_seconds == 3600.0


def test_paths_are_seen_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    file = tmp_path / "digits.yaml"
    file.write_text("workdir: ${WHERE}\nrun: x\nenvs: {WHERE: nowhere}\n")
    found = load_job(file, envs={"WHERE": "code"}).job
    assert (found.name, found.workdir, found.envs) == ("digits", str(tmp_path / "code"), {"WHERE": "code"})


def test_a_path_too_long_to_exist_is_not_there() -> None:
    assert "there is no folder" in complaint(with_run(f"workdir: {'x' * 300}"))


def test_secrets_come_from_file_caller_and_environment_and_stay_out_of_the_job() -> None:
    loaded = parse_job(
        with_run("secrets: {A: from-file, B: null, C: from-file}\nenvs: {A: plain}"),
        secrets={"C": "from-caller", "D": "added"},
        environ={"B": "from-environment"},
    )
    assert loaded.secrets == {"A": "from-file", "B": "from-environment", "C": "from-caller", "D": "added"}
    assert loaded.job.secret_names == ("A", "B", "C", "D")
    assert "from-" not in to_json(loaded.job)
    assert parse_job(with_run("secrets: [B]"), environ={"B": "1"}).secrets == {"B": "1"}
    assert parse_job("run: x", secrets={"E": "1"}).job.secret_names == ("E",)
