"""Archives from strangers."""

from __future__ import annotations

import errno
import gzip
import io
import resource
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from mlcd.errors import UserError
from mlcd.web import archives
from mlcd.web.archives import BrokenArchiveError, safe_name, unpack
from mlcd.web.zip_entries import count_entries


def zipped(*entries: tuple[str, str], mode: int = 0o100644, deflate: bool = False) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return stream.getvalue()


def tarred(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", content: bytes = b"x", how: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=how) as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, target, len(content) if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def tarred_many(count: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for number in range(count):
            archive.addfile(tarfile.TarInfo(f"f{number}"))
    return stream.getvalue()


def long_words(mib: int) -> bytes:
    """A tar whose first entry says much of itself: a pax header of so many MiB, in a few hundred kB."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, mib << 20
    stream = io.BytesIO()
    with gzip.open(stream, "wb", 1) as packed:
        packed.write(info.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(mib):
            packed.write(bytes(1 << 20))
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


def test_a_tar_that_says_too_much_of_its_entries_takes_no_memory_of_the_server(tmp_path: Path) -> None:
    content = long_words(600)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BrokenArchiveError, match="too much time or memory"):
        put(tmp_path, content, "x.tar.gz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_a_packed_file_that_is_no_tar_is_kept_as_it_is(tmp_path: Path) -> None:
    content = gzip.compress(b"1,2\n")
    assert (put(tmp_path, content, "rows.csv.gz") / "rows.csv.gz").read_bytes() == content


def test_what_packs_too_well_is_refused_whatever_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BOMB_BYTES", 10**5)
    with pytest.raises(UserError, match="more than this server takes"):
        put(tmp_path, zipped(("zeros", "0" * 5_000_000), deflate=True), most=10**12)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_ENTRIES", 3)
    many = [(f"f{n}", "x") for n in range(5)]
    for name, content in (("code.zip", zipped(*many)), ("code.tar.gz", tarred_many(4))):
        (tmp_path / name).mkdir()
        with pytest.raises(UserError, match="more than 3 files"):
            put(tmp_path / name, content, name)
        assert not list((tmp_path / name / "out" / "content").iterdir()), "nothing is written before all are counted"


def test_a_zip_of_millions_of_entries_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that claims one entry and holds many; ZipFile would read them all."""
    honest = zipped(*[(f"f{n}", "x") for n in range(2000)])
    end = honest.rindex(b"PK\5\6")
    lying = honest[: end + 8] + b"\1\0\1\0" + honest[end + 12 :]
    monkeypatch.setattr(archives, "MOST_ENTRIES", 1000)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UserError, match="more than 1,000 files"):
        put(tmp_path, lying)


@pytest.mark.parametrize("count", [0, 1, 3000, 70_000])
def test_entries_are_counted_by_the_directory(tmp_path: Path, count: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.comment = b"PK\5\6 or not"
        for number in range(count):
            archive.writestr(zipfile.ZipInfo(f"{number}-{'n' * 100}"), "")
    (tmp_path / "x.zip").write_bytes(b"#!prefix\n" + stream.getvalue())
    assert count_entries(tmp_path / "x.zip", 100_000) == count
    assert count_entries(tmp_path / "x.zip", 2) == min(count, 3)


def test_a_comment_that_looks_like_a_large_directory_hides_no_entries(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(5):
            info = zipfile.ZipInfo(str(number))
            info.comment = b"PK\6\6" + bytes(72) if number == 4 else b""
            archive.writestr(info, "")
    assert len(zipfile.ZipFile(tmp_path / "x.zip").infolist()) == 5
    assert count_entries(tmp_path / "x.zip", 10) == 5


def test_a_locator_that_leads_to_another_directory_hides_no_entries(tmp_path: Path) -> None:
    """Newer versions of zipfile look where the locator says, older ones right before it."""
    directory = zipped(*((str(number), "") for number in range(5)))
    end = directory.rfind(b"PK\5\6")
    size = struct.unpack_from("<L", directory, end + 12)[0]
    many = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 5, 5, size, end - size)
    none = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 0, 0, 0, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)
    (tmp_path / "x.zip").write_bytes(directory[:end] + many + none + locator + last)
    assert count_entries(tmp_path / "x.zip", 10) == 5


def test_an_end_record_as_far_back_as_zipfile_looks_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped(("a", ""), ("b", "")) + bytes(1 << 16))
    assert len(zipfile.ZipFile(tmp_path / "x.zip").infolist()) == 2
    assert count_entries(tmp_path / "x.zip", 10) == 2


@pytest.mark.parametrize("content", [b"", b"PK\5\6", b"PK\5\6" + b"\xff" * 18, b"x" * 100])
def test_what_has_no_directory_has_no_entries(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    assert count_entries(tmp_path / "x.zip", 10) == 0


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_refused_in_plain_words(tmp_path: Path, method: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("train.py", bytes(range(256)) * 40)
    whole = stream.getvalue()
    for number, place in enumerate(range(60, len(whole) - 120, max(1, len(whole) // 40))):
        (tmp_path / str(number)).mkdir()
        damaged = whole[:place] + bytes(byte ^ 0xFF for byte in whole[place : place + 8]) + whole[place + 8 :]
        with pytest.raises(BrokenArchiveError, match="cannot be read"):
            put(tmp_path / str(number), damaged)


def test_a_disk_that_is_full_is_no_broken_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archives, "write_entry", no_room)
    with pytest.raises(OSError, match="No space left"):
        put(tmp_path, zipped(("a", "x")))


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
