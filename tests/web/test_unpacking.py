"""Archives from strangers."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from mlcd.errors import UserError
from mlcd.web import unpacking
from mlcd.web.unpacking import safe_name, unpack


def zipped(*entries: tuple[str, str], mode: int = 0o100644, deflate: bool = False) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return stream.getvalue()


def tarred(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", content: bytes = b"x", how: str = "w"
) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=how) as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, target, len(content) if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def put(tmp_path: Path, content: bytes, name: str = "code.zip", most: int = 10**6) -> Path:
    sent = tmp_path / "sent"
    sent.write_bytes(content)
    unpack(sent, name, tmp_path / "out" / "content", most)
    return tmp_path / "out" / "content"


def test_a_zip_is_unpacked_with_its_folders_and_executables(tmp_path: Path) -> None:
    out = put(tmp_path, zipped(("a/train.py", "x"), ("b.sh", "y"), mode=0o100755))
    assert (out / "a" / "train.py").read_text() == "x"
    assert (out / "b.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("how", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_unpacked(tmp_path: Path, how: str) -> None:
    assert (put(tmp_path, tarred("./a/b.py", how=how), "x.tar") / "a" / "b.py").read_bytes() == b"x"


def test_any_other_file_is_kept_as_it_is(tmp_path: Path) -> None:
    assert (put(tmp_path, b"1,2\n", "rows.csv") / "rows.csv").read_bytes() == b"1,2\n"


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "..", "C:/evil", "a\\..\\evil", "x/" + "y" * 300, "/"]
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="leads elsewhere"):
        put(tmp_path, zipped((name, "x")))
    (tmp_path / "t").mkdir()
    with pytest.raises(UserError, match="leads elsewhere"):
        put(tmp_path / "t", tarred(name), "x.tar")
    assert not list(tmp_path.parent.rglob("evil"))


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    kinds = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
    archives = [tarred("link", kind, "/etc/passwd") for kind in kinds]
    archives.append(zipped(("link", "/etc/passwd"), mode=0o120777))
    for number, content in enumerate(archives):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(UserError, match="link or a device"):
            put(tmp_path / str(number), content, "x.tar")


def test_a_bomb_is_refused_while_it_goes_off(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="more than this server takes"):
        put(tmp_path, zipped(("zeros", "0" * 5_000_000), deflate=True), most=10**6)


def test_a_bomb_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    honest = zipped(("zeros", "0" * 5_000_000), deflate=True)
    lying = honest.replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(UserError):
        put(tmp_path, lying, most=10**6)
    written = sum(path.stat().st_size for path in tmp_path.rglob("zeros"))
    assert written <= 10**6


def test_what_packs_too_well_is_refused_whatever_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "BOMB_BYTES", 10**5)
    with pytest.raises(UserError, match="more than this server takes"):
        put(tmp_path, zipped(("zeros", "0" * 5_000_000), deflate=True), most=10**12)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST_ENTRIES", 3)
    monkeypatch.setattr(unpacking.Allowance.__init__, "__defaults__", (3,))
    with pytest.raises(UserError, match="more than 3 files"):
        put(tmp_path, zipped(*[(f"f{n}", "x") for n in range(5)]))


@pytest.mark.parametrize("content", [b"PK\x03\x04 not really", b"", b"hello", zipped(("a", "x"))[:-30]])
def test_a_broken_archive_is_refused_in_plain_words(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError, match="archive"):
        put(tmp_path, content)


def test_a_name_that_is_file_and_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        put(tmp_path, zipped(("a", "x"), ("a/b", "y")))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../x.py", "x.py"),
        ("C:\\a\\x.py", "x.py"),
        ("..", "upload"),
        ("", "upload"),
        ("a\nb", "ab"),
        ("/", "upload"),
    ],
)
def test_the_name_of_an_upload_is_a_name_and_no_path(given: str, kept: str) -> None:
    assert safe_name(given) == kept
