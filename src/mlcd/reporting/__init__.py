"""The report of a job as one HTML file, and its choice explained in words."""

from __future__ import annotations

from mlcd.reporting.explain import Paragraph, explain
from mlcd.reporting.page import write_report

__all__ = ["Paragraph", "explain", "write_report"]
