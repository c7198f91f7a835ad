"""The keys of groups on servers that several tasks may share."""

from __future__ import annotations

import re

from mlcd.sync.valkey.connection import Connection


def key_root(task: str, group: str = "") -> str:
    """What the keys of a task's group begin with; without a group, those of the whole task."""
    parts = [re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in (task, group) if part]
    return ":".join(["mlcd", *parts])


def remove_task(url: str, task: str) -> None:
    """Remove all that a task has left on the servers of a URL; no error where there is nothing."""
    for each in url.split(","):
        remove_keys(each.strip(), key_root(task))


def remove_keys(url: str, root: str, before: int | None = None) -> None:
    """Remove what groups whose keys begin so have left on a server: all of it, or of generations before this one."""
    server, cursor = Connection(url), b"0"
    while True:
        cursor, keys = server.ask("SCAN", cursor, "MATCH", f"{root}:*", "COUNT", 1000)
        numbers = [(key, key.decode()[len(root) + 1 :].partition(":")[0]) for key in keys]
        old = [key for key, number in numbers if before is None or (number.isdigit() and int(number) < before)]
        if old:
            server.ask("UNLINK", *old)
        if cursor == b"0":
            break
    server.close()
