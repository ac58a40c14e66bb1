"""Prints the public names of a library with one-logger's API, one per line, with their
signatures, without annotations. Defaults are printed by repr.

    python3 names.py PREFIX

names.txt is its output for the original, nv_one_logger 2.3.1."""

import enum
import importlib
import inspect
import sys

PREFIX = sys.argv[1]
MODULES = """api.config api.one_logger_provider api.recorder api.telemetry_config api.timed_span core.attributes core.event core.exceptions
core.span core.time exporter.base_json_exporter exporter.export_config_manager exporter.exporter exporter.exporter_config
exporter.file_exporter exporter.logger_exporter recorder.default_recorder training_telemetry.api.attributes
training_telemetry.api.callbacks training_telemetry.api.checkpoint training_telemetry.api.config training_telemetry.api.context
training_telemetry.api.events training_telemetry.api.spans training_telemetry.api.training_recorder
training_telemetry.api.training_telemetry_provider""".split()


def default(value):
    if isinstance(value, enum.Enum):
        return str(value.value)
    name = type(value).__name__
    return repr(value) if name in ("NoneType", "bool", "int", "float", "str") else "..."


def signature(f):
    """Returns the parameters of f: their names, kinds and defaults."""
    parts, star = [], False
    for p in inspect.signature(f).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        parts.append(text if p.default is p.empty else "%s=%s" % (text, default(p.default)))
    return "(%s)" % ", ".join(parts)


def members(kind):
    """Returns the members of a class, without its constructor and inherited members."""
    for name in sorted(n for n in dir(kind) if not n.startswith("_")):
        owner = next((c for c in kind.__mro__ if name in vars(c)), None)
        if owner is None or not owner.__module__.startswith(PREFIX) or name.startswith("model_") or name == "dict":
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, (classmethod, staticmethod)):
            yield name, signature(value.__func__)
        elif isinstance(value, property):
            yield name, "property"
        elif inspect.isclass(value):
            yield name, "class"
        elif inspect.isfunction(value):
            yield name, signature(value)


def lines():
    for path in MODULES:
        module = importlib.import_module(PREFIX + "." + path)
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            where = "%s %s" % (path, name)
            if inspect.isclass(value) and issubclass(value, enum.Enum):
                yield "%s enum %s" % (where, " ".join("%s=%s" % (m.name, m.value) for m in value))
            elif inspect.isclass(value):
                shape = "" if not callable(getattr(value, "__init__", None)) or type(value).__call__ is not type.__call__ else signature(value)
                if inspect.isabstract(value) or getattr(value, "_is_protocol", False) or shape == "(*args, **kwargs)":
                    shape = ""
                yield "%s class %s" % (where, shape)
                for member, text in members(value):
                    yield "%s.%s %s" % (where, member, text)
            elif inspect.isfunction(value):
                yield "%s %s" % (where, signature(value))


print("\n".join(lines()))
