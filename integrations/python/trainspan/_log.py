"""DFTracer's log of a process: the result of dftracer.initialize_log, its entities, and the
conversion of arguments of spans."""

import itertools
import os

from . import _ring, passing, plain, quiet

DFTRACER_ENABLE_ENV, DFTRACER_INIT_ENV, DFTRACER_LOG_LEVEL_ENV = "DFTRACER_ENABLE", "DFTRACER_INIT", "DFTRACER_LOG_LEVEL"
DFTRACER_TIME_METRIC_ENV = "DFTRACER_TIME_METRIC"
DFTRACER_ENABLE = _ring.wanted
DFTRACER_INIT_PRELOAD = os.environ.get(DFTRACER_INIT_ENV, "PRELOAD") == "PRELOAD"
DFTRACER_LOG_LEVEL = os.environ.get(DFTRACER_LOG_LEVEL_ENV, "ERROR")
INIT_NAME, ITER_COUNT_NAME, BLOCK_NAME, ITER_NAME, CTX_SEPARATOR = "init", "count", "block", "iter", "."
START_METADATA_NAME, STOP_METADATA_NAME = "start", "end"
ROOT_NAME = ROOT_CAT = "ai_root"
CAT_DYNAMO = "dynamo"

_KEYS = ("epoch", "step", "image_idx", "image_size")
_nothing = "".format  # a function that accepts any arguments and returns a false value


_UNITS = {"NS": 1e9, "US": 1e6, "MS": 1e3, "SEC": 1.0}  # per second, by time metric


def get_time_scale():
    """Returns the number of units of get_time and log_event in a second."""
    return _UNITS.get(os.environ.get(DFTRACER_TIME_METRIC_ENV), 1e6)


def _unit():
    """Returns the nanoseconds of a unit of time."""
    return int(1e9 / get_time_scale())


def setup_logger(name, log_file, formatter, level=20):
    """Returns a logger of Python's that writes to a file."""
    import logging

    return _logger(logging, name, logging.FileHandler(log_file), formatter, level)


def setup_stream_logger():
    """Returns a logger for DFTracer's own messages on standard error, from DFTRACER_LOG_LEVEL
    on."""
    import logging

    return _logger(logging, "DFTRACER", logging.StreamHandler(), "[%(levelname)s] %(message)s", _level())


def _level():
    return {"DEBUG": 10, "INFO": 20, "WARN": 30}.get(DFTRACER_LOG_LEVEL, 40)


def _logger(logging, name, handler, formatter, level):
    handler.setFormatter(logging.Formatter(formatter))
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.addHandler(handler)
    return logger


def get_default_args(func):
    """Returns the parameters of a function that have defaults."""
    import inspect

    return {k: v.default for k, v in inspect.signature(func).parameters.items() if v.default is not v.empty}


class TagValue:
    """An argument with a type: of TagDType, or its number."""

    def __init__(self, value, dtype=2, tag_type=0):
        self._dtype, self._tag_type = dtype, tag_type
        self._value = (int, float, str)[int(dtype)](value)

    def value(self):
        return (int(self._tag_type), self._value)


_BARE = (str, int, float)
_HOLDS = (list, tuple, set, frozenset, dict)


def _plain(value):
    """Converts an argument as DFTracer does: numbers and text, alone or in a tag, and the text
    of other values. It does not access a tensor, which might wait for its device."""
    kind = type(value)
    try:
        if issubclass(kind, TagValue):
            return value._value
        if issubclass(kind, _BARE) or kind.__module__ == "numpy":
            return plain(value)
        return str(value) if _speaks(value, 3) else plain(value)
    except Exception as e:
        passing(e)
        return kind.__name__


def _speaks(value, depth):
    """Returns whether the text of a value is available without waiting."""
    kind = type(value)
    if issubclass(kind, _HOLDS):
        if depth == 0 or len(value) > 64:
            return False
        return all(_speaks(v, depth - 1) for v in (itertools.chain(*value.items()) if issubclass(kind, dict) else value))
    return issubclass(kind, _BARE) or not _tensor(kind)


def _tensor(kind):
    """Returns whether a value of a class may wait for its device when it is accessed."""
    return any(hasattr(kind, attr) for attr in ("shape", "__array__", "__dlpack__", "__cuda_array_interface__", "__torch_function__"))


def _number(key, value):
    """Converts a numeric argument as the original does: other values raise an error, except for
    the sizes of an image, which guides print."""
    kind = type(value)
    if key == "image_size" and issubclass(kind, (tuple, list)):
        return _plain(value)
    if kind.__module__ == "numpy":
        value = plain(value)
    elif not issubclass(kind, _BARE) and _tensor(kind):
        return plain(value)
    return float(value) if key == "image_size" else int(value)


def _gather(into, args, values):
    """Adds arguments, and those with separate parameters, to a dictionary."""
    a, b, c, d = values
    if not a is b is c is d is None:
        for key, value in zip(_KEYS, values):
            if value is not None:
                into[key] = _number(key, value)
    if args is not None:
        try:
            for key, value in args.items():
                into[key if type(key) is str else str(key)] = value if type(value) in _BARE else _plain(value)
        except AttributeError:
            raise  # not a mapping: the original raises it as well
        except Exception as e:  # an object of the program
            passing(e)
    return into


_meta = quiet(lambda key, value: _ring.meta(str(key), str(plain(value))))


class NoOpProfiler:
    """The log if nothing is recorded: its methods do nothing."""

    def initialize(self, log_file=None, data_dirs=None, process_id=-1):
        pass

    def get_time(self):
        return 0

    def get_config(self, key):
        return ""

    def declare_entity(self, type, key, store=0, uri=""):
        return 0

    enter_event = exit_event = log_event = log_metadata_event = declare_entity_type = relate_entities = finalize = _nothing
    set_app_metadata_int = set_app_metadata_string = mark_used = _nothing


ProfilerProtocol, profiler = NoOpProfiler, NoOpProfiler()


class dftracer:
    """The log of this process."""

    _instance = None
    logger = dbg_logging = None
    start_time = 0

    def __init__(self):
        dftracer._instance = self

    @classmethod
    def get_instance(cls):
        return dftracer._instance or dftracer()

    @staticmethod
    def initialize_log(logfile=None, data_dir=None, process_id=-1):
        """Sets the file of the log, and the folders whose files are recorded. The path is that
        of a trace: the ring buffer is made beside it, and `trainspan trace import` makes the
        trace."""
        instance = dftracer.get_instance()
        if not DFTRACER_ENABLE:
            return instance
        quiet(instance._initialize)(logfile, data_dir)
        instance.start_time = instance.get_time()
        instance.logger = instance
        return instance

    def _initialize(self, logfile, data_dir):
        path = os.fspath(logfile) if logfile else os.environ.get("DFTRACER_LOG_FILE") or "./trace"
        _ring.configure(path)
        if DFTRACER_LOG_LEVEL == "DEBUG" and self.dbg_logging is None:
            folder = os.path.dirname(os.path.abspath(path))
            os.makedirs(folder, exist_ok=True)
            form = "[DFTRACER_PY %(levelname)s] %(message)s [%(pathname)s:%(lineno)d]"
            self.dbg_logging = setup_logger("dftracer_dbg", os.path.join(folder, "dft.log"), form, _level())
        self._debug("initialize_log", logfile, data_dir)
        if data_dir or "DFTRACER_DATA_DIR" in os.environ:
            from . import files

            files.install(files.wanted(data_dir and os.fspath(data_dir)))

    def _debug(self, *words):
        if self.dbg_logging is not None:
            self.dbg_logging.debug("logger." + " ".join(map(str, words)), stacklevel=3)

    def get_time(self):
        return _ring.now() // _unit() if DFTRACER_ENABLE else 0

    def get_config(self, key):
        return os.environ.get(key, "US" if key == DFTRACER_TIME_METRIC_ENV else "") if DFTRACER_ENABLE else ""

    enter_event = exit_event = _nothing

    @quiet
    def log_event(self, name, cat, start_time, duration, int_args=None, float_args=None, string_args=None, relations=None):
        """Records a finished event; times are those of get_time."""
        args, unit = {}, _unit()
        for given in (int_args, float_args, string_args):
            for key, value in (given or {}).items():  # in the original's form: in tuples
                args[str(key)] = _plain(value[1] if isinstance(value, tuple) and len(value) == 2 else value)
        for relation, entities in (relations or {}).items():
            _relate(args, relation, entities)
        _ring.event(_ring.name(name, cat), int(start_time * unit), int((start_time + duration) * unit), args)
        self._debug("log_event", name, cat, start_time, duration)

    def log_metadata_event(self, key, value):
        _meta(key, value)
        self._debug("log_metadata_event", key, value)

    # Entities, which events use and create.

    @quiet
    def declare_entity(self, type, key, store=0, uri=""):
        """Returns the number of an entity, whose name is recorded once."""
        if not DFTRACER_ENABLE:
            return 0
        number = 1469598103934665603  # DFTracer's value, not that of FNV
        for byte in ("%s\x1f%s" % (type, key)).encode():
            number = (number ^ byte) * 0x100000001B3 & (1 << 64) - 1
        _record("EH", {"id": _entity(number), "type": str(type), "store": int(store), "uri": str(uri or "")}, self._declared)
        return number

    @quiet
    def declare_entity_type(self, type, role=0, description=""):
        _record("ET", {"type": str(type), "role": int(role), "description": str(description or "")}, self._declared)

    @quiet
    def relate_entities(self, relation, subject, object):
        if int(relation) >= 16 and subject and object:
            _record("ER", {"relation": int(relation), "subject": _entity(subject), "object": _entity(object)})

    _declared = set()

    def set_app_metadata_int(self, key, value):
        _meta("app." + str(key), value)

    set_app_metadata_string = set_app_metadata_int

    def mark_used(self, name):
        pass

    def finalize(self):
        self._debug("finalize")
        _ring.close()


def _entity(number):
    return "%016x" % number


def _record(kind, args, once=None):
    """Writes a record of entities."""
    key = (kind, args.get("id") or args.get("type"))
    if DFTRACER_ENABLE and (once is None or key not in once):
        if once is not None:
            once.add(key)
        _ring.mark(_ring.NOTE, _ring.name(kind, "entity"), args, 0, 0)


def _relate(args, relation, entities):
    word = ("used", "generated", "invalidated", "updated")[int(relation)]
    args.setdefault("relations", {}).setdefault(word, []).extend(_entity(number) for number in entities if number)


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("itertools", "os", "passing", "plain", "quiet")]
