"""torch.compile: when it compiles, and that it does not compile us."""

import sys
import types

from trainspan import _ring, quiet

from . import hooks


def _codes(value, seen):
    """The code of a function, and of those inside of it."""
    code = value if isinstance(value, types.CodeType) else getattr(value, "__code__", None)
    if isinstance(code, types.CodeType) and code not in seen:
        seen.add(code)
        for inner in code.co_consts:
            _codes(inner, seen)
    if isinstance(value, type):
        for member in vars(value).values():
            _codes(getattr(member, "__func__", member), seen)


def _frames(module):
    """Frames of ours that run while Dynamo looks at frames are none of the program's: it
    would compile them, and count them."""
    seen = set()
    for name, ours in list(sys.modules.items()):
        if name.partition(".")[0] in ("trainspan", "trainspan_torch"):
            for value in list(vars(ours).values()):
                _codes(value, seen)
    for code in seen:
        module.skip_code(code)


def _callbacks(module):
    """A compilation begins and ends. The handler's own methods are watched: what is
    registered there torch._dynamo.reset() forgets, and an error of ours would be one
    of the compiler's."""
    handler = module.CompilationCallbackHandler
    begin, end = handler.run_start_callbacks, handler.run_end_callbacks
    start = hooks.starter("compile", "graph_compile", "compile")
    tokens = []

    @quiet
    def details(args):
        """What compiles: id (frame/how often before), what asked for it, and why again."""
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


MODULES = {"torch._dynamo.eval_frame": _frames, "torch._dynamo.callback": _callbacks}
