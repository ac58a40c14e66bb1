"""Telemetry of training jobs: DFTracer's Python API and one-logger's callbacks,
written to shared memory for `trainspan run` and `trainspan import`."""

import os

__version__ = "0.1.0"
environ = os.environ  # below trainspan run what that had said when the process began
