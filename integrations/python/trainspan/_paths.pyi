from typing import Any

def __getattr__(name: str) -> Any: ...  # a part of the client: no interface
