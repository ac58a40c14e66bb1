"""The error that telemetry raises."""


class OneLoggerError(Exception):
    """Everything that telemetry raises of its own accord."""

    def __init__(self, message):
        super().__init__(message)


def assert_that(condition, message):
    """Raises a OneLoggerError with the message unless the condition holds."""
    if not condition:
        raise OneLoggerError(message)
