"""A key is defined in one place, the field of a Job: it is read, checked, written back and documented by that alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from mlcd.core.job import Job, ProbeSettings
from mlcd.core.jobfile import errors, job_from_dict, job_to_dict, parse_job, read
from mlcd.core.jobfile.keys import leaves, section_of
from mlcd.core.keys import Key
from mlcd.core.serial import from_json, to_json
from mlcd.errors import InvalidJobError

DOCS = Path(__file__).parents[3] / "docs"


@dataclass(frozen=True)
class LongerProbe(ProbeSettings):
    """The settings of a probe with a key that mlcd does not have."""

    cooldown_seconds: Annotated[float, Key("between two probes", "duration or 0", name="cooldown")] = 3.0


@dataclass(frozen=True)
class LargerJob(Job):
    """A job with two keys that mlcd does not have, one of them within `probe`."""

    probe: Annotated[LongerProbe, Key()] = LongerProbe()
    flavour: Annotated[str, Key("how it should taste", "name", heading="Notifications")] = "plain"


@pytest.fixture
def larger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The definition of the job is the larger one."""
    for module in (read, errors):
        monkeypatch.setattr(module, "Job", LargerJob)
    errors._homes.cache_clear()
    yield
    errors._homes.cache_clear()


def complaint(text: str) -> str:
    with pytest.raises(InvalidJobError) as caught:
        parse_job(text)
    return caught.value.message


@pytest.mark.usefixtures("larger")
def test_a_new_key_is_read_and_written_back() -> None:
    job = parse_job("run: x\nflavour: sweet\nprobe: {cooldown: 1m}\n").job
    assert isinstance(job, LargerJob)
    assert (job.flavour, job.probe.cooldown_seconds) == ("sweet", 60.0)
    assert (job_to_dict(job)["flavour"], job_to_dict(job)["probe"]["cooldown"]) == ("sweet", 60.0)
    assert job_from_dict(job_to_dict(job)).job == job
    assert from_json(LargerJob, to_json(job)) == job


@pytest.mark.usefixtures("larger")
def test_a_new_key_is_refused_with_its_line_when_it_is_wrong() -> None:
    told = complaint("run: x\nflavour: ' '\nprobe:\n  cooldown: soon\n").splitlines()
    assert told[0] == "job.yaml, line 2: flavour: it is blank."
    assert told[1].startswith("job.yaml, line 4: probe.cooldown: 'soon' is not a duration")


@pytest.mark.usefixtures("larger")
def test_a_new_key_is_suggested() -> None:
    assert "Did you mean 'flavour'?" in complaint("run: x\nflavor: sweet\n")
    assert "Did you mean 'cooldown'?" in complaint("run: x\nprobe: {cooldwn: 1}\n")
    assert "It belongs under 'probe'." in complaint("run: x\ncooldown: 1\n")


def test_a_new_key_is_documented() -> None:
    spec = importlib.util.spec_from_file_location("job_file_page", DOCS / "job_file_page.py")
    assert spec is not None
    assert spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    page = made.make_page(made.PAGE.read_text(encoding="utf-8"), LargerJob)
    assert "| `flavour` | name | `plain` | how it should taste |" in page
    assert "| `probe.cooldown` | duration or 0 | `3` | between two probes |" in page


def test_without_the_new_definition_the_keys_are_unknown() -> None:
    assert "unknown key 'flavour'" in complaint("run: x\nflavour: sweet\n")


def test_every_key_says_what_it_means() -> None:
    assert [name for name, entry in leaves(section_of(Job)) if not entry.key.meaning] == []


def test_every_field_of_a_job_is_filled_by_a_key() -> None:
    filled = {field for entry in section_of(Job).entries for field in entry.fields}
    assert filled == set(Job.__dataclass_fields__)
