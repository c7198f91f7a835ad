"""Settings: the environment first, then the file, then the default; mistakes name the file or the variable."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.ray.settings import RaySettings
from mlcd.errors import UserError
from mlcd.settings import NotifySettings, Settings, python_setting, read_settings


def read(home: Path, toml: str = "", **environ: str) -> Settings:
    (home / "config.toml").write_text(toml)
    return read_settings({"MLCD_HOME": str(home), **environ})


def test_without_a_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    settings = read_settings({"MLCD_HOME": str(tmp_path)})
    assert (settings.of(LocalSettings), settings.notify) == (LocalSettings(), NotifySettings())


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    toml = '[notify]\nemail = "a@example.org"\nsmtp_port = 25\nallow_private = true\n[local]\ncores = 3\n'
    settings = read(tmp_path, toml, MLCD_NOTIFY_EMAIL="b@example.org", MLCD_LOCAL_CORES="4")
    assert settings.notify.email == "b@example.org"
    assert (settings.notify.smtp_port, settings.notify.allow_private) == (25, True)
    assert settings.of(LocalSettings).cores == 4


@pytest.mark.parametrize(
    ("toml", "environ", "words"),
    [
        ("[notify]\nemial = 'x'\n", {}, "unknown setting 'emial'"),
        ("notify = 3\n", {}, "not a table"),
        ("", {"MLCD_NOTIFY_SMTP_PORT": "x"}, "notify.smtp_port (MLCD_NOTIFY_SMTP_PORT) is 'x', not a number"),
        ("", {"MLCD_NOTIFY_ALLOW_PRIVATE": "maybe"}, "neither true nor false"),
        ("", {"MLCD_PREDICT_MEMORY_GIB": "-1"}, "must not be negative"),
        ("", {"MLCD_PREDICT_MEMORY_GIB": "nan"}, "must not be negative"),
        ("[locl]\ncores = 3\n", {}, "unknown setting 'locl'"),
        ("[replay]\nnoise = 3\n", {}, "unknown setting 'replay'"),
        ("[together]\nx = 3\n", {}, "unknown setting 'together'"),
        ("[skypilot]\nregion = 'x'\n", {}, "unknown setting 'region'"),
        (
            "[ray]\nwait_seconds = 'soon'\n",
            {},
            "ray.wait_seconds (MLCD_RAY_WAIT_SECONDS) is 'soon', not a number",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, toml: str, environ: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, toml, **environ)
    assert words in caught.value.message


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = read(tmp_path, MLCD_NOTIFY_SMTP_PASSWORD="hidden-1", MLCD_NOTIFY_SLACK="https://x/hidden-2")
    assert "hidden" not in repr(settings)


def test_a_mistake_comes_with_the_nearest_known_name(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, "[kubernets]\nimage = 'x'\n")
    assert caught.value.hint == "Did you mean 'kubernetes'?"
    with pytest.raises(UserError) as caught:
        read(tmp_path, "[kubernetes]\nimagee = 'x'\n")
    assert caught.value.hint == "Did you mean 'image'?"


def test_a_cloud_s_settings_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    """A variable that is wrong for one cloud does not keep jobs from running on another."""
    settings = read(tmp_path, "[ec2]\ndisk_gib = 8\n", MLCD_EC2_REGIONS="eu-west-1", MLCD_RAY_WAIT_SECONDS="x")
    assert (settings.of(Ec2Settings).disk_gib, settings.of(Ec2Settings).regions) == (8, "eu-west-1")
    with pytest.raises(UserError, match="MLCD_RAY_WAIT_SECONDS"):
        settings.of(RaySettings)


def test_settings_given_in_code_win_over_the_file(tmp_path: Path) -> None:
    settings = replace(read(tmp_path, "[local]\ncores = 3\n"), clouds=(LocalSettings(cores=7),))
    assert settings.of(LocalSettings).cores == 7
    assert settings.of(RaySettings) == RaySettings()


def test_only_clouds_with_a_python_setting_name_it() -> None:
    assert [python_setting(name) for name in ("ec2", "local", "replay", "nowhere")] == [
        "ec2.python",
        "",
        "",
        "",
    ]


def test_reading_without_a_file_imports_no_cloud(tmp_path: Path) -> None:
    code = "import sys, mlcd.settings as s; s.read_settings(); print([m for m in sys.modules if 'mlcd.clouds' in m])"
    environ = {**os.environ, "MLCD_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.strip() == "[]"
