from enum import Enum, IntEnum
from logging import Logger
from types import FrameType, TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping, TypeVar, overload

from .dynamo import Dynamo as Dynamo
from .dynamo import TORCH_AVAILABLE as TORCH_AVAILABLE
from .dynamo import create_backend as create_backend
from .dynamo import create_detailed_op_name as create_detailed_op_name
from .dynamo import dftracer_dynamo_backend as dftracer_dynamo_backend
from .dynamo import dynamo as dynamo

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=DFTracerAI)
_T = TypeVar("_T")
_Args = Mapping[str, Any] | None

__all__: list[str]

DFTRACER_ENABLE_ENV: str
DFTRACER_INIT_ENV: str
DFTRACER_LOG_LEVEL_ENV: str
DFTRACER_TIME_METRIC_ENV: str
DFTRACER_ENABLE: bool
DFTRACER_INIT_PRELOAD: bool
DFTRACER_LOG_LEVEL: str
CAT_DYNAMO: str
START_METADATA_NAME: str
STOP_METADATA_NAME: str
INIT_NAME: str
ITER_COUNT_NAME: str
BLOCK_NAME: str
ITER_NAME: str
CTX_SEPARATOR: str
ROOT_NAME: str
ROOT_CAT: str

def get_iter_block_name(name: str) -> str: ...
def get_iter_handle_name(name: str) -> str: ...
def get_time_scale() -> float: ...
def get_default_args(func: Callable[..., Any]) -> dict[str, Any]: ...
def setup_logger(name: str, log_file: str, formatter: str, level: int = ...) -> Logger: ...
def setup_stream_logger() -> Logger: ...
def capture_signal(signal_number: int, frame: FrameType | None) -> None: ...
def alias() -> None: ...

EntityID = int

class EntityStore(IntEnum):
    MEMORY = 0
    GPU_MEMORY = 1
    LOCAL_DISK = 2
    PARALLEL_FS = 3
    BURST_BUFFER = 4
    OBJECT_STORE = 5
    DATABASE = 6
    NETWORK = 7
    OTHER = 8

class EntityRole(IntEnum):
    UNKNOWN = 0
    INPUT = 1
    OUTPUT = 2
    INTERMEDIATE = 3
    PARAMETER = 4
    REFERENCE = 5

class EntityRelation(IntEnum):
    USED = 0
    GENERATED = 1
    INVALIDATED = 2
    UPDATED = 3
    DERIVED_FROM = 16
    REVISION_OF = 17
    CONTAINS = 18
    PART_OF = 19
    SPECIALIZATION_OF = 20
    ALTERNATE_OF = 21
    DEPENDS_ON = 22

class TagType(Enum):
    KEY = 0
    VALUE = 1
    IGNORE = 2
    def __int__(self) -> int: ...

class TagDType(Enum):
    INT = 0
    FLOAT = 1
    STRING = 2
    def __int__(self) -> int: ...

class TagValue:
    def __init__(self, value: Any, dtype: TagDType | int = ..., tag_type: TagType | int = ...) -> None: ...
    def value(self) -> tuple[int, int | float | str]: ...

class DFTracerAI:
    off: bool
    def __init__(self, *, cat: str, name: str | None = ..., epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: Any = ..., enable: bool = ..., _above: DFTracerAI | None = ...) -> None: ...
    @property
    def cat(self) -> str: ...
    @property
    def name(self) -> str: ...
    def start(self, metadata: bool = ...) -> None: ...
    def stop(self, metadata: bool = ...) -> None: ...
    def __enter__(self: _S) -> _S: ...
    def __exit__(self, kind: type[BaseException] | None = ..., error: BaseException | None = ..., trace: TracebackType | None = ...) -> None: ...
    @overload
    def __call__(self: _S, fn: None = ..., *, enable: bool | None = ..., epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., args: _Args = ...) -> DFTracerAI: ...
    @overload
    def __call__(self, fn: _F, *, enable: bool | None = ..., epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., args: _Args = ...) -> _F: ...
    def iter(self, iterator: Iterable[_T], *, include_block: bool = ..., include_iter: bool = ..., iter_name: str | None = ..., block_name: str | None = ...) -> Iterator[_T]: ...
    @property
    def init(self) -> DFTracerAI: ...
    def derive(self, name: str) -> DFTracerAI: ...
    def create_children(self, names: Mapping[str, str]) -> None: ...
    def update(self: _S, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., args: _Args = ...) -> _S: ...
    def enable(self) -> None: ...
    def disable(self) -> None: ...
    def reset(self) -> None: ...
    def get_time(self) -> int: ...
    def log_metadata(self, key: str, value: Any) -> None: ...
    @property
    def profiler(self: _S) -> _S: ...

class ProfileCategory(str, Enum):
    COMPUTE = "compute"
    DATA = "data"
    DATALOADER = "dataloader"
    COMM = "comm"
    DEVICE = "device"
    CHECKPOINT = "checkpoint"
    PIPELINE = "pipeline"
    OTHER = "other"

class IO(DFTracerAI):
    open: DFTracerAI
    read: DFTracerAI
    write: DFTracerAI
    close: DFTracerAI
    def __init__(self, *, cat: str, parent_name: str, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., _above: DFTracerAI | None = ...) -> None: ...

class IOEvent(str, Enum):
    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CLOSE = "close"

class Compute(DFTracerAI):
    forward: DFTracerAI
    backward: DFTracerAI
    step: DFTracerAI
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class ComputeEvent(str, Enum):
    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "step"

class Data(DFTracerAI):
    preprocess: DFTracerAI
    item: DFTracerAI
    io: IO
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class DataEvent(str, Enum):
    PREPROCESS = "preprocess"
    ITEM = "item"

class DataLoader(DFTracerAI):
    fetch: DFTracerAI
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class DataLoaderEvent(str, Enum):
    FETCH = "fetch"

class Communication(DFTracerAI):
    send: DFTracerAI
    receive: DFTracerAI
    barrier: DFTracerAI
    bcast: DFTracerAI
    reduce: DFTracerAI
    all_reduce: DFTracerAI
    gather: DFTracerAI
    all_gather: DFTracerAI
    scatter: DFTracerAI
    reduce_scatter: DFTracerAI
    all_to_all: DFTracerAI
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class CommunicationEvent(str, Enum):
    SEND = "send"
    RECEIVE = "receive"
    BARRIER = "barrier"
    BCAST = "bcast"
    REDUCE = "reduce"
    ALL_REDUCE = "all_reduce"
    GATHER = "gather"
    ALL_GATHER = "all_gather"
    SCATTER = "scatter"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"

class Device(DFTracerAI):
    transfer: DFTracerAI
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class DeviceEvent(str, Enum):
    TRANSFER = "transfer"

class Checkpoint(DFTracerAI):
    capture: DFTracerAI
    restart: DFTracerAI
    io: IO
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class CheckpointEvent(str, Enum):
    CAPTURE = "capture"
    RESTART = "restart"

class Pipeline(DFTracerAI):
    epoch: DFTracerAI
    train: DFTracerAI
    evaluate: DFTracerAI
    test: DFTracerAI
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class PipelineEvent(str, Enum):
    EPOCH = "epoch"
    TRAIN = "train"
    EVALUATE = "evaluate"
    TEST = "test"

class Other(DFTracerAI):
    log: DFTracerAI
    io: IO
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ..., *, _above: DFTracerAI | None = ...) -> None: ...

class OtherEvent(str, Enum):
    LOG = "log"

class AI(DFTracerAI):
    compute: Compute
    data: Data
    dataloader: DataLoader
    comm: Communication
    device: Device
    checkpoint: Checkpoint
    pipeline: Pipeline
    other: Other
    def __init__(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ...) -> None: ...

ai: AI
compute: Compute
data: Data
dataloader: DataLoader
comm: Communication
device: Device
checkpoint: Checkpoint
pipeline: Pipeline

class NoOpProfiler:
    def initialize(self, log_file: str | None = ..., data_dirs: str | None = ..., process_id: int = ...) -> None: ...
    def get_time(self) -> int: ...
    def get_config(self, key: str) -> str: ...
    def declare_entity(self, type: str, key: Any, store: int = ..., uri: str = ...) -> int: ...
    def enter_event(self, *args: Any, **kwargs: Any) -> Any: ...
    def exit_event(self, *args: Any, **kwargs: Any) -> Any: ...
    def log_event(self, *args: Any, **kwargs: Any) -> Any: ...
    def log_metadata_event(self, *args: Any, **kwargs: Any) -> Any: ...
    def declare_entity_type(self, *args: Any, **kwargs: Any) -> Any: ...
    def relate_entities(self, *args: Any, **kwargs: Any) -> Any: ...
    def set_app_metadata_int(self, *args: Any, **kwargs: Any) -> Any: ...
    def set_app_metadata_string(self, *args: Any, **kwargs: Any) -> Any: ...
    def mark_used(self, *args: Any, **kwargs: Any) -> Any: ...
    def finalize(self, *args: Any, **kwargs: Any) -> Any: ...

ProfilerProtocol = NoOpProfiler
profiler: NoOpProfiler

class dftracer:
    logger: Any
    dbg_logging: Any
    start_time: int
    def __init__(self) -> None: ...
    @classmethod
    def get_instance(cls) -> dftracer: ...
    @staticmethod
    def initialize_log(logfile: Any = ..., data_dir: Any = ..., process_id: int = ...) -> dftracer: ...
    def get_time(self) -> int: ...
    def get_config(self, key: str) -> str: ...
    def enter_event(self, *args: Any) -> Any: ...
    def exit_event(self, *args: Any) -> Any: ...
    def log_event(
        self, name: str, cat: str, start_time: float, duration: float, int_args: _Args = ..., float_args: _Args = ..., string_args: _Args = ...,
        relations: Mapping[int, Iterable[int]] | None = ...,
    ) -> None: ...
    def log_metadata_event(self, key: str, value: Any) -> None: ...
    def declare_entity(self, type: str, key: Any, store: int = ..., uri: str = ...) -> int: ...
    def declare_entity_type(self, type: str, role: int = ..., description: str = ...) -> None: ...
    def relate_entities(self, relation: int, subject: int, object: int) -> None: ...
    def set_app_metadata_int(self, key: str, value: int) -> None: ...
    def set_app_metadata_string(self, key: str, value: str) -> None: ...
    def mark_used(self, name: str) -> None: ...
    def finalize(self) -> None: ...

class dft_fn:
    off: bool
    def __init__(self, cat: str, name: str | None = ..., epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., enable: bool = ...) -> None: ...
    def __enter__(self) -> dft_fn: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def update(self, epoch: int | None = ..., step: int | None = ..., image_idx: int | None = ..., image_size: int | None = ..., args: _Args = ...) -> dft_fn: ...
    def relate(self, relation: int, entity: int) -> dft_fn: ...
    def relate_entity(self, relation: int, type: str, key: Any, store: int = ..., uri: str = ...) -> int: ...
    def uses(self, type: str, key: Any, store: int = ..., uri: str = ...) -> int: ...
    def generates(self, type: str, key: Any, store: int = ..., uri: str = ...) -> int: ...
    def flush(self) -> dft_fn: ...
    def reset(self) -> dft_fn: ...
    @overload
    def log(self, func: _F, name: str | None = ...) -> _F: ...
    @overload
    def log(self, func: None = ..., name: str | None = ...) -> Callable[[_F], _F]: ...
    @overload
    def log_init(self, init: _F, name: str | None = ...) -> _F: ...
    @overload
    def log_init(self, init: None = ..., name: str | None = ...) -> Callable[[_F], _F]: ...
    @overload
    def log_static(self, func: _F, name: str | None = ...) -> _F: ...
    @overload
    def log_static(self, func: None = ..., name: str | None = ...) -> Callable[[_F], _F]: ...
    def log_metadata(self, key: str, value: Any) -> None: ...
    def iter(self, func: Iterable[_T], name: str = ..., iter_name: str = ...) -> Iterator[_T]: ...

dft_fn_orig = dft_fn
dftracer_orig = dftracer

def trace_handler(prof: Any) -> None: ...
