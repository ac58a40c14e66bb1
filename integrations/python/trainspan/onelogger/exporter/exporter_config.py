"""An exporter by the name of its class."""

from dataclasses import dataclass, field
from typing import Any, Dict


@dataclass
class ExporterConfig:
    """The class of an exporter, what its constructor is given, and whether it is on."""

    class_name: str
    config: Dict[str, Any] = field(default_factory=dict)
    enabled: bool = True
