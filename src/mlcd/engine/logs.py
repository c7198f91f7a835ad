"""Logs in pages: whole lines from a place in the file, secrets blotted out."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

from mlcd.core.listing import LogPage
from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.task import TaskFolder
from mlcd.engine.context import job_folder
from mlcd.engine.secrets import read_secrets, redact
from mlcd.engine.tasks import task_folder
from mlcd.errors import NotFoundError
from mlcd.settings import Settings
from mlcd.store import Store

PAGE_BYTES = 256 * 1024
_LINE_ENDS = (b"\n", b"\r")  # progress bars end their lines with a carriage return


def log_page(store: Store, settings: Settings, record: JobRecord, task: str | None, node: int, after: int) -> LogPage:
    """Lines of a task's log (the newest task's by default) from that place on."""
    found = task_with_log(store, record, task, node)
    folder = job_folder(settings, record.id)
    ended = found.ended_at is not None  # before the file is read: what is written later is not missed
    lines, place, all_read = _read(TaskFolder(task_folder(folder, found.id)).log(node), after, ended)
    hidden = read_secrets(folder)
    return LogPage(found.id, tuple(redact(line, hidden) for line in lines), place, ended and all_read)


def task_with_log(store: Store, record: JobRecord, task: str | None, node: int) -> TaskRecord:
    """The task of that id, the newest one by default, if it has such a node."""
    tasks = [known for known in store.tasks(record.id) if task in (None, known.id)]
    if not tasks:
        raise NotFoundError(f"Job {record.id} has no task '{task}'." if task else f"Job {record.id} has no log yet.")
    nodes = tasks[-1].deployment.nodes
    if node >= nodes:
        numbers = "0" if nodes == 1 else f"0 to {nodes - 1}"
        raise NotFoundError(
            f"Task {tasks[-1].id} has no node {node}.",
            f"It runs on {tasks[-1].deployment}: ask for {numbers}.",
        )
    return tasks[-1]


def _read(log: Path, after: int, ended: bool) -> tuple[list[str], int, bool]:
    """Whole lines, the place after them, and whether that is the end."""
    if not log.is_file():
        return [], after, True
    with log.open("rb") as stream:
        start = _start_of_line(stream, after)
        chunk = stream.read(PAGE_BYTES)
        at_end = len(chunk) < PAGE_BYTES
    whole = len(chunk) if at_end and ended else max(chunk.rfind(end) for end in _LINE_ENDS) + 1
    if whole == 0 and not at_end:
        whole = len(chunk)  # a line longer than a page comes in pieces
    text = chunk[:whole].decode(errors="replace")
    return text.splitlines(), start + whole, at_end


def _start_of_line(stream: BufferedReader, after: int) -> int:
    """The place itself; if the file was rewritten meanwhile, the beginning of the next line."""
    after = min(after, os.fstat(stream.fileno()).st_size)
    stream.seek(max(0, after - 1))
    if after > 0 and stream.read(1) not in _LINE_ENDS:
        stream.readline(PAGE_BYTES)
    return stream.tell()
