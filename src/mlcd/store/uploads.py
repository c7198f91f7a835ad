"""Who sent which content, and when it was last of use to them. The content itself lies in files.

A job that is about to be made renews its uploads first. What is forgotten was of no use for long, so a request
that found an upload has all that time to make its job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row, delete, func, select, update

from mlcd.core.accounts import Upload
from mlcd.errors import NotFoundError
from mlcd.store.account_tables import uploads
from mlcd.store.database import Database, insert_or_skip
from mlcd.store.tables import jobs

FRESH_SECONDS = 3600.0  # what was used so lately need not be renewed
_ID = re.compile("[0-9a-f]{64}")
_AT_ONCE = 500  # documents


class Uploads:
    """Every verb is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, upload: Upload) -> None:
        """Somebody has sent this; a second time renews it."""
        row = {key: getattr(upload, key) for key in ("id", "account", "name", "bytes", "at")}
        mine = (uploads.c.id == upload.id) & (uploads.c.account == upload.account)
        with self._database.writing() as connection:
            connection.execute(insert_or_skip(connection, uploads).values(row))
            connection.execute(update(uploads).where(mine).values(at=upload.at))

    def use(self, upload_id: str, account: str | None, now: float) -> Upload:
        """What this account sent (None: anyone), renewed: it stays for a while; or NotFoundError."""
        found = self._find(upload_id, account)
        if found is not None and found.at < now - FRESH_SECONDS:
            self.renew(upload_id, now)
            found = self._find(upload_id, account)
        if found is None:
            raise NotFoundError(f"There is no upload '{upload_id}'.", "Send it again.")
        return _upload(found)

    def renew(self, upload_id: str, now: float) -> None:
        """It is of use; quiet if it is not there."""
        with self._database.writing() as connection:
            connection.execute(update(uploads).where(uploads.c.id == upload_id).values(at=now))

    def page(self, account: str, before: float | None, limit: int) -> list[Upload]:
        """What this account sent, that of the latest use first."""
        query = select(uploads).where(uploads.c.account == account).order_by(uploads.c.at.desc()).limit(limit)
        if before is not None:
            query = query.where(uploads.c.at < before)
        with self._database.reading() as connection:
            return [_upload(row) for row in connection.execute(query)]

    def ids_of(self, account: str) -> set[str]:
        """All that this account sent."""
        query = select(uploads.c.id).where(uploads.c.account == account)
        with self._database.reading() as connection:
            return set(connection.execute(query).scalars())

    def unused_since(self, before: float) -> set[str]:
        """Those that nobody has sent or used since then."""
        query = select(uploads.c.id).group_by(uploads.c.id).having(func.max(uploads.c.at) < before)
        with self._database.reading() as connection:
            return set(connection.execute(query).scalars())

    def known(self) -> set[str]:
        """All of them."""
        with self._database.reading() as connection:
            return set(connection.execute(select(uploads.c.id).distinct()).scalars())

    def named_by_jobs(self) -> set[str]:
        """Those that any job speaks of, read from all jobs."""
        return {found for doc in self._documents() for found in _ID.findall(doc)}

    def forget(self, upload_id: str, before: float) -> bool:
        """Forget it unless somebody has sent or used it since then; whether nobody knows of it any more."""
        this = uploads.c.id == upload_id
        with self._database.writing() as connection:
            connection.execute(delete(uploads).where(this, uploads.c.at < before))
            return connection.execute(select(uploads.c.id).where(this).limit(1)).first() is None

    def _find(self, upload_id: str, account: str | None) -> Row[Any] | None:
        query = select(uploads).where(uploads.c.id == upload_id)
        if account is not None:
            query = query.where(uploads.c.account == account)
        with self._database.reading() as connection:
            return connection.execute(query.limit(1)).first()

    def _documents(self) -> Iterator[str]:
        """Of all jobs, some at a time: nobody waits for this."""
        query = select(jobs.c.number, jobs.c.doc).order_by(jobs.c.number).limit(_AT_ONCE)
        last = 0
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(query.where(jobs.c.number > last)).all()
            if not rows:
                return
            yield from (row.doc for row in rows)
            last = rows[-1].number


def _upload(row: Row[Any]) -> Upload:
    return Upload(row.id, row.account, row.name, int(row.bytes), row.at)
