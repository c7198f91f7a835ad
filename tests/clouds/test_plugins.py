"""What a cloud's entry point says of it: options, checks, libraries, other names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mlcd import registry
from mlcd.clouds.accounts import check_cloud, is_cloud, plugin_of
from mlcd.clouds.base import Cloud, CloudPlugin
from mlcd.core.view import Finding
from mlcd.errors import CloudError, MissingExtraError, NotFoundError, UserError
from mlcd.settings import Settings, cloud_sections, read_settings

LIGHT = ("boto3", "ray", "sky", "asyncssh", "sqlalchemy", "numpy", "pydantic")


def broken(settings: Settings, options: Mapping[str, str]) -> Cloud:
    raise CloudError("Nobody answers.", "Switch it on.")


def test_every_registered_cloud_says_what_it_is() -> None:
    for name in registry.names("clouds"):
        plugin = registry.load("clouds", name)
        assert isinstance(plugin, CloudPlugin)
        assert plugin.name == name
        assert plugin.settings is None or plugin.settings.section == name
        assert (Path(__file__).parents[2] / "docs" / plugin.page).is_file()


def test_naming_the_clouds_imports_none_of_their_libraries() -> None:
    code = (
        "import sys; from mlcd.settings import cloud_sections; assert len(cloud_sections()) >= 6; "
        f"print([name for name in {LIGHT} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_option_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        registry.load("clouds", "ray")(Settings(home=tmp_path), {"adress": "x"})
    assert caught.value.message == "The cloud 'ray' has no option 'adress'."
    assert caught.value.hint == "Did you mean 'address'?"


def test_a_missing_library_comes_with_its_install_line(tmp_path: Path) -> None:
    def needs_more(settings: Settings, options: Mapping[str, str]) -> Cloud:
        import no_such_library  # noqa: F401

        raise AssertionError

    plugin = CloudPlugin("mine", needs_more, install="pip install mine", check=lambda s: needs_more(s, {}))
    for ask in (
        lambda: plugin(Settings(home=tmp_path), {}),
        lambda: plugin.findings(Settings(home=tmp_path)),
    ):
        with pytest.raises(MissingExtraError) as caught:
            ask()
        assert (caught.value.message, caught.value.hint) == (
            "The cloud 'mine' needs no_such_library.",
            "pip install mine",
        )


def test_a_cloud_without_a_check_is_asked_for_offers(tmp_path: Path) -> None:
    (found,) = check_cloud(Settings(home=tmp_path), "local")
    assert (found.what, found.ok) == ("offers", True)
    (found,) = CloudPlugin("mine", broken).findings(Settings(home=tmp_path))
    assert found == Finding("offers", False, "Nobody answers.", "Switch it on.")


def test_a_cloud_of_ours_that_is_not_installed_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = registry._points("clouds")
    without = {name: point for name, point in points.items() if name != "functions"}
    monkeypatch.setattr(registry, "_points", lambda group: without)
    (tmp_path / "config.toml").write_text("[functions]\nmost = 3\n")
    for ask in (
        lambda: registry.load("clouds", "functions"),
        lambda: registry.load("clouds", "local+functions"),
        lambda: check_cloud(Settings(home=tmp_path), "functions"),
        lambda: read_settings({"MLCD_HOME": str(tmp_path)}),
    ):
        with pytest.raises(MissingExtraError) as caught:
            ask()
        assert "The cloud 'functions' is in a distribution of its own" in caught.value.message
        assert "pip install 'mlcd[functions]'" in caught.value.hint
    assert is_cloud("functions")


def test_a_cloud_goes_by_its_other_names_too() -> None:
    assert registry.cloud_name("aws") == "ec2"
    assert [registry.cloud_name(name) for name in ("ec2", "gcp")] == ["ec2", "gcp"]
    assert [is_cloud(name) for name in ("aws", "replay", "gcp", "together")] == [True, True, False, False]
    with pytest.raises(NotFoundError) as caught:
        registry.load("clouds", "aws")
    assert caught.value.hint == "Did you mean 'ec2'?"


def test_a_plug_in_that_cannot_be_imported_is_named_and_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_a_newer_python.py").write_text("type plugin\n")
    (tmp_path / "wants_a_server.py").write_text("raise RuntimeError('no server')\n")
    monkeypatch.syspath_prepend(tmp_path)
    broken = {
        "shed": EntryPoint("shed", "no_such_module:plugin", "mlcd.clouds"),
        "barn": EntryPoint("barn", "mlcd.registry:no_such_name", "mlcd.clouds"),
        "mill": EntryPoint("mill", "of_a_newer_python:plugin", "mlcd.clouds"),
        "well": EntryPoint("well", "wants_a_server:plugin", "mlcd.clouds"),
    }
    points = {**registry._points("clouds"), **broken}
    monkeypatch.setattr(registry, "_points", lambda group: points)
    for name, point in broken.items():
        with pytest.raises(MissingExtraError) as caught:
            check_cloud(Settings(home=tmp_path), name)
        assert caught.value.message.startswith(f"The cloud '{name}' cannot be imported: ")
        assert caught.value.hint == f"Install the package {point.module} again, or remove it."
    assert registry.cloud_name("aws") == "ec2"
    assert registry.loadable("clouds").keys() == registry._points("clouds").keys() - {*broken, registry.TOGETHER}
    assert {"ec2", "local"} <= cloud_sections().keys()


def test_a_plain_function_is_a_plugin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda group, name: broken)
    assert plugin_of("mine") == CloudPlugin("mine", broken)
