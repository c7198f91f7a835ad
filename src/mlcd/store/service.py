"""What a server keeps beside jobs and accounts: answered requests, sealed secrets, the audit log."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update

from mlcd.core.accounts import Entry
from mlcd.errors import NotFoundError
from mlcd.store.account_tables import audit, requests, vault
from mlcd.store.database import Database, insert_or_skip
from mlcd.store.documents import sound
from mlcd.store.tables import charges, jobs, tasks
from mlcd.store.uploads import Uploads


@dataclass(frozen=True)
class Request:
    """A POST by its idempotency key."""

    digest: str
    reserved: str  # the id of what it makes
    status: int | None = None  # None: it has no answer yet
    answer: str | None = None


class Service:
    """Every verb is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.uploads = Uploads(database)

    def open_request(self, account: str, key: str, digest: str, reserved: str, now: float) -> Request:
        """The request of that key as first seen: this one, unless there was one before."""
        row = {"account": account, "key": key, "digest": digest, "reserved": reserved, "at": now}
        mine = (requests.c.account == account) & (requests.c.key == key)
        with self._database.writing() as connection:
            connection.execute(insert_or_skip(connection, requests).values(row))
            found = connection.execute(select(requests).where(mine)).one()
        return Request(found.digest, found.reserved, found.status, found.answer)

    def answer_request(self, account: str, key: str, status: int, answer: str) -> None:
        """Keep the answer, for whoever asks again; the first one stays."""
        mine = (requests.c.account == account) & (requests.c.key == key) & requests.c.status.is_(None)
        with self._database.writing() as connection:
            connection.execute(update(requests).where(mine).values(status=status, answer=sound(answer)))

    def drop_requests(self, before: float) -> None:
        """Forget old ones."""
        with self._database.writing() as connection:
            connection.execute(delete(requests).where(requests.c.at < before))

    # Secrets

    def put_secret(self, account: str, name: str, sealed: str, now: float) -> None:
        """Keep an encrypted value, in place of an earlier one."""
        with self._database.writing() as connection:
            connection.execute(delete(vault).where(vault.c.account == account, vault.c.name == name))
            connection.execute(insert(vault).values(account=account, name=name, sealed=sealed, at=now))

    def secrets(self, account: str) -> dict[str, float]:
        """Names, and when each was set."""
        query = select(vault.c.name, vault.c.at).where(vault.c.account == account).order_by(vault.c.name)
        with self._database.reading() as connection:
            return {row.name: row.at for row in connection.execute(query)}

    def sealed(self, account: str) -> dict[str, str]:
        """Names with their encrypted values."""
        query = select(vault.c.name, vault.c.sealed).where(vault.c.account == account)
        with self._database.reading() as connection:
            return {row.name: row.sealed for row in connection.execute(query)}

    def drop_secret(self, account: str, name: str) -> None:
        """Forget it; or NotFoundError."""
        with self._database.writing() as connection:
            gone = connection.execute(delete(vault).where(vault.c.account == account, vault.c.name == name))
            if gone.rowcount == 0:
                raise NotFoundError(f"There is no secret '{name}'.")

    # Audit

    def note(self, entry: Entry) -> None:
        """Add a line to the audit log; its number is given here."""
        row = {key: sound(getattr(entry, key)) for key in ("account", "action", "thing", "detail", "address")}
        with self._database.writing() as connection:
            connection.execute(insert(audit).values(at=entry.at, **row))

    def audit(self, before: int | None, limit: int) -> list[Entry]:
        """Lines before that number, newest first."""
        query = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.number < before)
        with self._database.reading() as connection:
            return [Entry(**row._mapping) for row in connection.execute(query)]

    # Sums for monitoring

    def jobs_by_state(self) -> dict[str, int]:
        """How many jobs are in each state."""
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with self._database.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def spent_usd(self) -> tuple[float, float]:
        """Dollars of all bills: real ones, and those of replays."""
        query = (
            select(jobs.c.virtual, func.sum(charges.c.usd))
            .join_from(charges, tasks)
            .join(jobs, jobs.c.id == tasks.c.job_id)
            .group_by(jobs.c.virtual)
        )
        with self._database.reading() as connection:
            sums = {bool(virtual): float(usd or 0.0) for virtual, usd in connection.execute(query)}
        return sums.get(False, 0.0), sums.get(True, 0.0)

    def running(self) -> int:
        """How many jobs have something running."""
        with self._database.reading() as connection:
            query = select(func.count(tasks.c.job_id.distinct())).where(tasks.c.ended_at.is_(None))
            return connection.execute(query).scalar() or 0
