"""The errors of Lambda's API, as boto3 knows them."""

from __future__ import annotations


class ApiFault(Exception):
    """An answer that is an error: its name in AWS's own words, and the HTTP status that goes with it."""

    def __init__(self, name: str, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.status = status
        self.message = message
        self.reason = reason


def not_found(what: str) -> ApiFault:
    """No such function."""
    return ApiFault("ResourceNotFoundException", 404, f"Function not found: {what}")


def conflict(what: str) -> ApiFault:
    """There is one by that name."""
    return ApiFault("ResourceConflictException", 409, f"Function already exist: {what}")


def invalid(message: str) -> ApiFault:
    """A value that cannot be."""
    return ApiFault("InvalidParameterValueException", 400, message)


def not_json(message: str) -> ApiFault:
    """A payload that is no JSON."""
    return ApiFault("InvalidRequestContentException", 400, f"Could not parse request body into json: {message}")


def too_large(length: int, most: int) -> ApiFault:
    """A payload beyond Lambda's limit."""
    return ApiFault("RequestTooLargeException", 413, f"Request must be smaller than {most} bytes, got {length}")


def too_many(reserved: bool) -> ApiFault:
    """As many run as may run at once: of this function, or of all."""
    scope = "ReservedFunctionConcurrent" if reserved else "Concurrent"
    return ApiFault("TooManyRequestsException", 429, "Rate Exceeded.", f"{scope}InvocationLimitExceeded")


def unknown_path(method: str, path: str) -> ApiFault:
    """A call that this service does not know."""
    return ApiFault("UnknownOperationException", 404, f"{method} {path} is not served here")
