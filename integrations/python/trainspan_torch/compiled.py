"""torch.compile: records compilations, and keeps the client's code out of them."""

import sys
import types

import trainspan
from trainspan import _ring, quiet

from . import hooks
from .loop import Loop


def _codes(value, seen):
    """Adds to seen the code of a function or a class, and of the functions in it."""
    code = value if isinstance(value, types.CodeType) else getattr(value, "__code__", None)
    if isinstance(code, types.CodeType) and code not in seen:
        seen.add(code)
        for inner in code.co_consts:
            _codes(inner, seen)
    wrapped = getattr(value, "__wrapped__", None)
    if isinstance(wrapped, types.FunctionType):
        _codes(wrapped, seen)
    if isinstance(value, type):
        for member in vars(value).values():
            for part in (member, getattr(member, "__func__", None), getattr(member, "fget", None), getattr(member, "fset", None)):
                _codes(part, seen)


def _frames(module):
    """Makes Dynamo skip frames of the client: it would compile them, and count them. If its API
    allows it, it also skips the functions that they call, except those that call the
    program."""
    ours, alone = set(), set()
    for name, known in list(sys.modules.items()):
        if name.partition(".")[0] in ("trainspan", "trainspan_torch"):
            for value in list(vars(known).values()):
                if getattr(value, "__module__", name) == name:
                    _codes(value, ours)
    client = trainspan.client
    if client is not None:
        for value in (type(client), client.spec):
            _codes(value, ours)
    for value in (Loop, _ring.meta, _ring.end, _ring.step, _ring.end_step, _ring.start, quiet(bool)):
        _codes(value, alone)
    strategy = getattr(module, "set_code_exec_strategy", None)
    for code in ours | alone:
        if strategy and code in alone:
            strategy(code, module.FrameExecStrategy(module.FrameAction.SKIP, module.FrameAction.SKIP))
        else:
            module.skip_code(code)


def _callbacks(module):
    """Records the start and the end of a compilation. The handler's own methods are wrapped,
    because torch._dynamo.reset() forgets registered callbacks, and an error of the client
    would be an error of the compiler."""
    handler = module.CompilationCallbackHandler
    begin, end = handler.run_start_callbacks, handler.run_end_callbacks
    start = hooks.starter("compile", "graph_compile", "compile")
    tokens = []

    @quiet
    def details(args):
        """Returns the details of a compilation: id (frame/number of earlier ones), its cause,
        and the reason of a recompilation."""
        context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
        known = context and context.current_compile_id() or args and args[0].compile_id
        trigger = args and args[0].callback_trigger.name.lower()
        out = {"compile_id": str(known or ""), "trigger": trigger or None}
        metrics = sys.modules.get("torch._dynamo.utils")
        if hasattr(metrics, "get_metrics_context"):
            out["reason"] = str(metrics.get_metrics_context()._metrics.get("recompile_reason") or "")[:300]
        return {key: value for key, value in out.items() if value}

    def run_start_callbacks(self, *args, **kwargs):
        before(args)
        return begin(self, *args, **kwargs)

    def run_end_callbacks(self, *args, **kwargs):
        try:
            return end(self, *args, **kwargs)
        finally:
            after(args)

    @quiet
    def before(args):
        inside = hooks.PHASE.inside
        tokens.append((start(), inside, inside.busy))
        inside.busy = 1  # a compiler tries the program's functions

    @quiet
    def after(args):
        hooks._loop.restore()
        if tokens:
            token, inside, inside.busy = tokens.pop()
            _ring.end(token, details(args))

    hooks.replace(handler, "run_start_callbacks", run_start_callbacks)
    hooks.replace(handler, "run_end_callbacks", run_end_callbacks)


def _graphs(module):
    """Makes graphs of a compiler, which run as modules, not count as forwards of the program."""
    module._LazyGraphModule.__call__ = vars(sys.modules["torch.nn.modules.module"].Module)["__call__"].plain


MODULES = {"torch.fx._lazy_graph_module": _graphs, "torch._dynamo.eval_frame": _frames, "torch._dynamo.callback": _callbacks}
