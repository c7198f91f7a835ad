"""YAML is read as people write it; what is no YAML is refused with its line."""

from __future__ import annotations

import pytest

from job_texts import complaint, job
from mlcd.core.jobfile import job_from_dict
from mlcd.errors import InvalidJobError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("null", "the file is empty"),
        ("just words", "line 1: a job file is a list of 'key: value' lines"),
        ("- a\n- b", "line 1: a job file is a list of 'key: value' lines"),
        ("{}", "'run' is missing"),
        ("run: x\n  bad: y", "line 2: this is not YAML"),
        ("run: 'x", "this is not YAML"),
        ("run: x\n---\nrun: y", "one document; '---' begins another"),
        ("run: *x", "this is not YAML: found undefined alias"),
        ("run: \x01", "this is not YAML"),
        pytest.param("[" * 5000, "nested too deeply", id="deep"),
        ("a: &a [x, *a]\nrun: x", "too many values"),
    ],
)
def test_what_is_no_job_file_is_said(text: str, message: str) -> None:
    assert message in complaint(text)


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "too many values" in complaint("\n".join(layers))


def test_characters_escaped_as_json_does_are_read_and_halves_are_refused() -> None:
    assert job('{"run": "x", "name": "\\ud83d\\ude80"}').name == "🚀"
    assert complaint('{"run": "x", "name": "\\ud83d"}') == "job.yaml, line 1: it holds half a character."
    with pytest.raises(InvalidJobError, match="half a character"):
        job_from_dict({"run": "x", "goal": "\ud83d"})


def test_anchors_and_merges_work() -> None:
    found = job("run: x\nenvs: &base {A: '1', B: '2'}\nsecrets:\n  <<: *base\n  B: '3'\n")
    assert found.secret_names == ("A", "B")
