"""What the worker's tests share."""

from worker.sessions import inside

__all__ = ["inside"]
