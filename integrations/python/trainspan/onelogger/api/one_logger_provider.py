"""The configuration and the recorder of the process."""

from .._single import Single
from ..core.exceptions import assert_that

_FIRST = "You need to call OneLoggerProvider.instance().configure() once in your application before accessing the %s."


class OneLoggerProvider(metaclass=Single):
    """The configuration and the recorder of the process: OneLoggerProvider.instance()."""

    _config = _recorder = None
    _off = False

    def configure(self, config, recorder):
        """Sets both, once."""
        assert_that(config, "config cannot be None.")
        assert_that(
            self._recorder in (None, recorder) and (self._config is None or self._config is config),
            "OneLoggerProvider already configured! You must call configure() once and only once.",
        )
        self._config, self._recorder = config, recorder
        config.logger_config.apply()

    @property
    def recorder(self):
        assert_that(self._recorder, _FIRST % "recorder")
        return self._recorder

    @property
    def config(self):
        assert_that(self._config, _FIRST % "config")
        return self._config

    @property
    def one_logger_ready(self):
        return self._recorder is not None and self._config is not None

    @property
    def one_logger_enabled(self):
        """Returns whether anything is recorded: telemetry is configured, enabled for this rank,
        and not switched off."""
        return self._recorder is not None and not self._off and self._config.enable_for_current_rank

    def force_disable_logging(self):
        """Ends the recording. Open spans are stopped, written and closed."""
        if not self._off:
            self._off = True
            if self._recorder is not None:
                getattr(self._recorder, "end", lambda: None)()
