"""Telemetry of training jobs: DFTracer's Python API and one-logger's callbacks,
written to shared memory for `trainspan run` and `trainspan import`."""

import os

__version__ = "0.1.0"
environ = os.environ  # below trainspan run what that had said when the process began


def quiet(f):
    """f, which gives None where it would raise: telemetry stops nothing."""

    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except Exception:
            return None

    call.__name__, call.__doc__, call.__wrapped__ = f.__name__, f.__doc__, f
    return call
