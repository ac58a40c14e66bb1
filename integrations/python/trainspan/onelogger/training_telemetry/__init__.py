"""Telemetry of training."""
