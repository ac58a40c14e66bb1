"""The error of telemetry."""


class OneLoggerError(Exception):
    """The class of all errors that telemetry itself raises."""

    def __init__(self, message):
        super().__init__(message)


def assert_that(condition, message):
    """Raises a OneLoggerError with the message unless the condition holds."""
    if not condition:
        raise OneLoggerError(message)
