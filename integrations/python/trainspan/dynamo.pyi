from typing import Any, Callable, TypeVar, overload

from .dftracer import DFTRACER_ENABLE as DFTRACER_ENABLE
from .dftracer import DFTracerAI

_T = TypeVar("_T")

CAT_DYNAMO: str

class Dynamo(DFTracerAI):
    def __init__(
        self, name: str | None = ..., epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ...
    ) -> None: ...
    @overload
    def compile(self, f_py: None = ..., autograd: bool = ...) -> Callable[[_T], _T]: ...
    @overload
    def compile(self, f_py: _T, autograd: bool = ...) -> _T: ...
    def count_parameters(self, module: Any) -> int | None: ...

def create_backend(
    name: str | None = ...,
    epoch: int | None = ...,
    step: int | None = ...,
    image_idx: int | None = ...,
    image_size: int | None = ...,
    enable: bool = ...,
    autograd: bool = ...,
) -> Callable[..., Any]: ...
def dftracer_dynamo_backend(graph: Any, example: Any, **options: Any) -> Any: ...

dynamo: Dynamo

TORCH_AVAILABLE: bool

def create_detailed_op_name(node: Any, gm: Any) -> str: ...
