"""Telemetry of trainings that a framework runs."""
