"""Files that are not all there are told from those that are."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcd.clouds.tasks.formats import cut_off
from mlcd.clouds.tasks.processes import open_for_writing


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", os.urandom(1000))


def _safetensors(path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [250], "data_offsets": [0, 1000]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + os.urandom(1000))


def _torch(path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.save({"w": torch.zeros(250)}, path)


def _hdf5(version: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        h5py = pytest.importorskip("h5py", reason="h5py is not installed")
        with h5py.File(path, "w", libver=version) as file:
            file["layer/weights"] = np.zeros(1000)

    return write


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "zip": ("model.keras", _zip),
    "torch": ("model.pt", _torch),
    "safetensors": ("model.safetensors", _safetensors),
    "npy": ("weights.npy", lambda path: np.save(path, np.zeros((10, 10)))),
    "npz": ("weights.npz", lambda path: np.savez(path, a=np.zeros(100))),
    "hdf5 of old": ("model.h5", _hdf5("earliest")),
    "hdf5 of today": ("model.h5", _hdf5("latest")),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_whole_file_passes_and_no_part_of_it_does(kind: str, tmp_path: Path) -> None:
    name, write = WRITERS[kind]
    write(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    assert not cut_off(tmp_path / name)
    for size in (0, 20, len(whole) // 2, len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:size])
        assert cut_off(tmp_path / name), size


def test_an_hdf5_file_is_not_all_there_before_it_is_flushed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file["weights"] = np.zeros(100_000)
        assert cut_off(tmp_path / "model.h5")
        file.flush()
        assert not cut_off(tmp_path / "model.h5")


@pytest.mark.parametrize("content", [b"", b"weights", b"\x80\x04K\x01.", b"PK"])
def test_of_other_files_nothing_is_known_and_they_pass(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "state.bin").write_bytes(content)
    assert not cut_off(tmp_path / "state.bin")


def test_arrays_whose_size_is_not_in_their_name_pass(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object))
    np.save(tmp_path / "table.npy", np.zeros(3, dtype=[("a", "<f4")]))
    assert not cut_off(tmp_path / "objects.npy")
    assert not cut_off(tmp_path / "table.npy")


def test_a_file_that_is_gone_passes(tmp_path: Path) -> None:
    assert not cut_off(tmp_path / "model.pt")


def test_only_what_is_open_for_writing_and_not_for_appending_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "read").write_text("x")
    with (
        (folder / "written").open("wb"),
        (folder / "read").open("rb"),
        (folder / "log").open("ab"),
        (tmp_path / "elsewhere").open("wb"),
    ):
        assert open_for_writing({os.getpid()}, folder) == {"written"}
    assert open_for_writing({os.getpid()}, folder) == frozenset()
