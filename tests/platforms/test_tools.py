"""What a platform starts beside the user's program is looked for before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.core.job import Job
from mlcd.core.jobfile import job_from_dict
from mlcd.errors import InvalidJobError
from mlcd.platforms.tools import refuse_missing_tools, tools_elsewhere


def job(platform: str = "spark", **keys: object) -> Job:
    return job_from_dict({"run": "spark-submit train.py", "platform": platform, "work": {"samples": 9}, **keys}).job


def programs(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        (folder / name).touch(mode=0o755)
    return {"PATH": str(folder)}


def test_all_that_is_missing_is_named_with_what_installs_it(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidJobError, match="needs spark-class and java, which this computer does not have"
    ) as refused:
        refuse_missing_tools(job(), {"PATH": str(tmp_path)})
    assert "pip install pyspark && sudo apt-get install -y default-jre-headless" in refused.value.hint
    with pytest.raises(InvalidJobError, match="needs java, which"):
        refuse_missing_tools(job(), programs(tmp_path, "spark-class"))


def test_what_is_there_is_not_asked_for(tmp_path: Path) -> None:
    here = programs(tmp_path, "spark-class")
    refuse_missing_tools(job(), {**here, "JAVA_HOME": "/opt/java"})
    refuse_missing_tools(job(envs={"JAVA_HOME": "/opt/java"}), here)
    refuse_missing_tools(job(), programs(tmp_path, "spark-class", "java"))
    refuse_missing_tools(job("command"), {"PATH": "/nowhere"})


def test_setup_may_bring_it() -> None:
    brings = job(setup="sudo apt-get install -y default-jre-headless && pip install pyspark")
    refuse_missing_tools(brings, {"PATH": "/nowhere"})
    assert tools_elsewhere(brings) == ()


def test_machines_elsewhere_need_it_too() -> None:
    (told,) = tools_elsewhere(job())
    assert told.startswith("platform: spark needs spark-class and java on every machine")
    assert "`setup: pip install pyspark && sudo apt-get" in told
    assert tools_elsewhere(job("command")) == ()
