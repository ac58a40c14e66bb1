"""Telemetry of training jobs: DFTracer's Python API and one-logger's callbacks,
written to shared memory for `trainspan run` and `trainspan import`."""

__version__ = "0.1.0"
