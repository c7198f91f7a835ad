"""Accounts, teams and the ways in; every verb is one transaction. Passwords and tokens come here hashed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, or_, select, update

import mlcd.store.spending as spending
from mlcd.core.accounts import Account, Allowance, Role, Team, Token
from mlcd.errors import NotFoundError, UserError
from mlcd.store.account_tables import accounts, facts, teams, tokens
from mlcd.store.database import Database, insert_or_skip

SETUP = "setup"  # the fact that holds the hash of the setup token


class Accounts:
    """Who may use the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self) -> int:
        """How many accounts there are."""
        with self._database.reading() as connection:
            return connection.execute(select(func.count()).select_from(accounts)).scalar() or 0

    def add(self, account: Account, password: str = "") -> None:
        """A new account; its team is made if need be. UserError if the name is taken."""
        with self._database.writing() as connection:
            _add(connection, account, password)

    def add_first(self, account: Account, password: str, setup_digest: str) -> bool:
        """The first account, by the setup token, which is spent; False: the token is not the one in force."""
        with self._database.writing() as connection:
            _one_at_a_time(connection)
            known = connection.execute(select(facts.c.value).where(facts.c.name == SETUP)).scalar()
            if known is None or known != setup_digest or connection.execute(select(accounts.c.name)).first():
                return False
            _add(connection, account, password)
            connection.execute(delete(facts).where(facts.c.name == SETUP))
            return True

    def offer_setup(self, digest: str) -> None:
        """Let the holder of this token make the first account; an earlier token is void."""
        with self._database.writing() as connection:
            connection.execute(delete(facts).where(facts.c.name == SETUP))
            connection.execute(insert(facts).values(name=SETUP, value=digest))

    def get(self, name: str) -> Account:
        """One account; or NotFoundError."""
        with self._database.reading() as connection:
            row = connection.execute(_accounts().where(accounts.c.name == name)).first()
        if row is None:
            raise NotFoundError(f"No account is called '{name}'.")
        return _account(row)

    def of_subject(self, subject: str) -> Account | None:
        """The account of someone at the identity provider."""
        with self._database.reading() as connection:
            row = connection.execute(_accounts().where(accounts.c.subject == subject)).first()
        return None if row is None else _account(row)

    def page(self, after: str = "", limit: int = 100) -> list[Account]:
        """Accounts by name, from the one after that name."""
        query = _accounts().where(accounts.c.name > after).order_by(accounts.c.name).limit(limit)
        with self._database.reading() as connection:
            return [_account(row) for row in connection.execute(query)]

    def members(self, team: str) -> frozenset[str]:
        """The names of a team's accounts."""
        with self._database.reading() as connection:
            query = select(accounts.c.name).where(accounts.c.team == team)
            return frozenset(connection.execute(query).scalars())

    def password(self, name: str) -> str:
        """The hash; empty if there is none."""
        with self._database.reading() as connection:
            found = connection.execute(select(accounts.c.password).where(accounts.c.name == name)).scalar()
        return found or ""

    def change(self, name: str, **changes: Any) -> Account:
        """New facts: role, team, budget_usd, disabled or password. The last admin stays one."""
        with self._database.writing() as connection:
            _one_at_a_time(connection)
            if "team" in changes:
                _make_team(connection, changes["team"])
            changed = connection.execute(update(accounts).where(accounts.c.name == name).values(changes))
            if changed.rowcount == 0:
                raise NotFoundError(f"No account is called '{name}'.")
            if "role" in changes or changes.get("disabled"):
                _refuse_no_admin(connection)
            if "password" in changes or changes.get("disabled"):
                connection.execute(delete(tokens).where(tokens.c.account == name, tokens.c.session))
        return self.get(name)

    def put_team(self, team: Team) -> None:
        """A team with its budget, new or changed."""
        with self._database.writing() as connection:
            _make_team(connection, team.name)
            connection.execute(update(teams).where(teams.c.name == team.name).values(budget_usd=team.budget_usd))

    def teams(self) -> list[Team]:
        """All teams by name."""
        with self._database.reading() as connection:
            return [Team(*row) for row in connection.execute(select(teams).order_by(teams.c.name))]

    def allowances(self, name: str) -> tuple[Allowance, ...]:
        """How the month's budgets stand that this account spends from."""
        with self._database.reading() as connection:
            return spending.allowances(connection, name)

    # Ways in

    def put_token(self, token: Token, digest: str) -> None:
        """Keep a token, in place of one with the same id."""
        with self._database.writing() as connection:
            connection.execute(delete(tokens).where(tokens.c.id == token.id, tokens.c.account == token.account))
            row = {**{key: getattr(token, key) for key in _TOKEN}, "digest": digest}
            connection.execute(insert(tokens).values(row))

    def token(self, token_id: str, now: float) -> tuple[Token, str, Account] | None:
        """A token in force with its hash and its account; None: unknown, expired, or of a disabled account."""
        query = (
            select(tokens, *(column.label(f"a_{column.name}") for column in accounts.c))
            .join_from(tokens, accounts, accounts.c.name == tokens.c.account)
            .where(tokens.c.id == token_id, ~accounts.c.disabled)
            .where(or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now))
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else (_token(row), row.digest, _account(row, "a_"))

    def tokens(self, account: str) -> list[Token]:
        """An account's API tokens, newest first."""
        query = select(tokens).where(tokens.c.account == account, ~tokens.c.session)
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(query.order_by(tokens.c.created_at.desc()))]

    def revoke(self, token_id: str, account: str) -> None:
        """End a token of this account; NotFoundError if it has none of that id."""
        mine = (tokens.c.id == token_id) & (tokens.c.account == account)
        with self._database.writing() as connection:
            if connection.execute(delete(tokens).where(mine)).rowcount == 0:
                raise NotFoundError(f"No token has the id '{token_id}'.")

    def drop_expired(self, now: float) -> None:
        """Forget sessions and tokens that are over."""
        with self._database.writing() as connection:
            connection.execute(delete(tokens).where(tokens.c.expires_at < now))


_TOKEN = ("id", "account", "label", "created_at", "expires_at", "session")


def _add(connection: Connection, account: Account, password: str) -> None:
    _make_team(connection, account.team)
    row = {
        "name": account.name,
        "role": account.role.value,
        "team": account.team,
        "password": password,
        "subject": account.subject or None,
        "budget_usd": account.budget_usd,
        "disabled": account.disabled,
        "created_at": account.created_at,
    }
    added = connection.execute(insert_or_skip(connection, accounts).values(row).returning(accounts.c.name))
    if added.first() is None:
        raise UserError(f"There is an account '{account.name}' already.", "Choose another name.")


def _make_team(connection: Connection, name: str) -> None:
    connection.execute(insert_or_skip(connection, teams).values(name=name))


def _one_at_a_time(connection: Connection) -> None:
    """Two admins must not demote each other at once, nor two people be the first."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE")


def _refuse_no_admin(connection: Connection) -> None:
    admins = select(accounts.c.name).where(accounts.c.role == Role.ADMIN.value, ~accounts.c.disabled)
    if connection.execute(admins.limit(1)).first() is None:
        raise UserError("This is the last admin.", "Make somebody else an admin first.")


def _accounts() -> Select[Any]:
    return select(accounts)


def _account(row: Row[Any], prefix: str = "") -> Account:
    found = {column.name: getattr(row, prefix + column.name) for column in accounts.c}
    return Account(
        name=found["name"],
        role=Role(found["role"]),
        team=found["team"],
        created_at=found["created_at"],
        budget_usd=found["budget_usd"],
        disabled=found["disabled"],
        has_password=bool(found["password"]),
        subject=found["subject"] or "",
    )


def _token(row: Row[Any]) -> Token:
    return Token(**{key: getattr(row, key) for key in _TOKEN})
