"""As in SkyPilot."""
