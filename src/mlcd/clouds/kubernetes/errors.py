"""What kubectl's errors mean to the user, translated here and nowhere else. Pure."""

from __future__ import annotations

import re

from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

RIGHTS = "docs/how-to/kubernetes.md lists the rights that mlcd needs; `kubectl auth can-i --list` shows yours."
_ASK = "Ask whoever runs the cluster, or look at the settings kubernetes.*."
_MOST = 500  # characters of what kubectl said
_FULL = "exceeded quota"
_KIND = re.compile(r"Error from server \((\w+)\)")
_NO_ROOM = re.compile(rf"{_FULL}|maximum \S+ (?:usage|limit)")
_NO_NAMESPACE = re.compile(r'namespaces? "([^"]+)" not found')
_NO_CONTEXT = re.compile(r'context "([^"]+)" does not exist|no context exists with the name: "([^"]+)"')
_LOGGED_OUT = re.compile(r"Unauthorized|must be logged in|getting credentials|token (?:has )?expired")
_NOT_NOW = re.compile(r"getting credentials: .*failed")  # whoever hands them out may be away for a moment
_POLICY = re.compile(r"admission webhook \S+ denied the request")
_FOR_GOOD = {"Forbidden", "Invalid", "BadRequest", "MethodNotAllowed"}


class CredentialsError(UserError):
    """The command that fetches the credentials failed: for a moment, or until the user logs in."""


def in_words(doing: str, said: str) -> MlcdError:
    """The error that a refusal of kubectl or of the API server stands for; `doing` completes 'may not …'."""
    whole, said = said, said.strip()[-_MOST:]  # what it means may stand before what is shown
    kind = kind_of(whole)
    if _NO_ROOM.search(whole):
        return NoCapacityError(f"The cluster has no room to {doing}: {said}", "Use fewer or smaller nodes.")
    if namespace := _NO_NAMESPACE.search(whole):
        name = namespace[1]
        return UserError(
            f"The cluster has no namespace '{name}'.",
            f"`kubectl create namespace {name}`, or set kubernetes.namespace (MLCD_KUBERNETES_NAMESPACE).",
        )
    if kind == "Forbidden" or " is forbidden: " in whole or "Forbidden (" in whole:
        return UserError(f"The cluster does not allow to {doing}: {said}", RIGHTS)
    if _POLICY.search(whole):
        return UserError(f"A policy of the cluster does not allow to {doing}: {said}", _ASK)
    if _LOGGED_OUT.search(whole):
        kind_of_error = CredentialsError if _NOT_NOW.search(whole) else UserError
        return kind_of_error(f"The cluster does not accept the credentials: {said}", "Log in to it again.")
    if _NO_CONTEXT.search(whole):
        return UserError(f"kubectl could not {doing}: {said}", "`kubectl config get-contexts` lists what there is.")
    if kind in _FOR_GOOD or " is invalid: " in whole:
        return UserError(f"The cluster refused to {doing}: {said}", "Look at the settings kubernetes.*.")
    return CloudError(f"kubectl could not {doing}: {said}", "Try `kubectl get nodes` by hand.")


def is_full(said: str) -> bool:
    """Whether a quota is used up: for good, or until pods that are going are gone."""
    return _FULL in said


def kind_of(said: str) -> str:
    """The API server's own word for its refusal: Forbidden, NotFound, AlreadyExists …; empty: it was not asked."""
    found = _KIND.search(said)
    return found[1] if found else ""
