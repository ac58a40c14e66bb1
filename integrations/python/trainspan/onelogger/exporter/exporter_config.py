"""An exporter by the name of its class."""

from dataclasses import dataclass, field
from typing import Any, Dict


@dataclass
class ExporterConfig:
    """The class of an exporter, the arguments of its constructor, and whether it is enabled."""

    class_name: str
    config: Dict[str, Any] = field(default_factory=dict)
    enabled: bool = True
