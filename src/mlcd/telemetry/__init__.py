"""Sends what happens to a job to OpenTelemetry and MLflow; does nothing unless their variables are set."""
