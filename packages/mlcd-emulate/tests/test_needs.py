"""What is missing is told, with the line that gets it."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from mlcd.errors import MissingExtraError, UserError
from mlcd_emulate import needs


@pytest.fixture
def rooted(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A Linux computer where all is well."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs.shutil, "which", lambda tool, path: f"/bin/{tool}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return monkeypatch


def test_nothing_is_missing(rooted: pytest.MonkeyPatch) -> None:
    assert needs.why_not() == ""


def test_another_system_cannot(rooted: pytest.MonkeyPatch) -> None:
    rooted.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="needs Linux"):
        needs.require_all()


def test_another_user_cannot(rooted: pytest.MonkeyPatch) -> None:
    rooted.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="sudo mlcd emulate"):
        needs.require_all()


def test_a_missing_tool_is_told_with_its_package(rooted: pytest.MonkeyPatch) -> None:
    rooted.setattr(needs.shutil, "which", lambda tool, path: None if tool in ("tc", "ip", "nft") else tool)
    with pytest.raises(UserError) as caught:
        needs.require_all()
    assert caught.value.message == "The emulated EC2 needs ip, tc, nft, not found here."
    assert caught.value.hint == "apt-get install --no-install-recommends iproute2 nftables"


def test_a_missing_extra_is_told_with_its_install_line(rooted: pytest.MonkeyPatch) -> None:
    rooted.setattr(importlib.util, "find_spec", lambda name: None if name == "moto" else name)
    with pytest.raises(MissingExtraError) as caught:
        needs.require_all()
    assert caught.value.hint == "pip install 'mlcd[emulate]'"
