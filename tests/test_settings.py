"""Settings: the environment first, then the file, then the default; mistakes name the file or the variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.errors import UserError
from mlcd.settings import LocalSettings, NotifySettings, read_settings


def read(home: Path, toml: str = "", **environ: str) -> object:
    (home / "config.toml").write_text(toml)
    return read_settings({"MLCD_HOME": str(home), **environ})


def test_without_a_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    settings = read_settings({"MLCD_HOME": str(tmp_path)})
    assert (settings.local, settings.notify) == (LocalSettings(), NotifySettings())


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    toml = '[notify]\nemail = "a@example.org"\nsmtp_port = 25\nallow_private = true\n[local]\ncores = 3\n'
    settings = read(tmp_path, toml, MLCD_NOTIFY_EMAIL="b@example.org", MLCD_LOCAL_CORES="4")
    assert settings.notify.email == "b@example.org"
    assert (settings.notify.smtp_port, settings.notify.allow_private) == (25, True)
    assert settings.local.cores == 4


@pytest.mark.parametrize(
    ("toml", "environ", "words"),
    [
        ("[notify]\nemial = 'x'\n", {}, "unknown setting 'emial'"),
        ("notify = 3\n", {}, "not a table"),
        ("", {"MLCD_NOTIFY_SMTP_PORT": "x"}, "notify.smtp_port (MLCD_NOTIFY_SMTP_PORT) is 'x', not a number"),
        ("", {"MLCD_NOTIFY_ALLOW_PRIVATE": "maybe"}, "neither true nor false"),
        ("", {"MLCD_PREDICT_MEMORY_GIB": "-1"}, "must not be negative"),
        ("", {"MLCD_PREDICT_MEMORY_GIB": "nan"}, "must not be negative"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, toml: str, environ: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, toml, **environ)
    assert words in caught.value.message


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = read(tmp_path, MLCD_NOTIFY_SMTP_PASSWORD="hidden-1", MLCD_NOTIFY_SLACK="https://x/hidden-2")
    assert "hidden" not in repr(settings)
