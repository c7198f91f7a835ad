"""What happens to a job, for OpenTelemetry and MLflow; nothing without their variables in the environment."""
