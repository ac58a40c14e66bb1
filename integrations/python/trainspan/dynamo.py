"""DFTracer's integration with TorchDynamo: a backend of torch.compile that runs a
graph operation by operation, with a span of category dynamo for each. Its names are
those of DFTracer: function.OPERATOR.OVERLOAD, method.NAME, PATH.TYPE_PATH.

PyTorch is imported when something is compiled, not before.
"""

import copy

from . import _ring, unframed
from .dftracer import DFTRACER_ENABLE, DFTracerAI

CAT_DYNAMO = "dynamo"


def _name(graph, node):
    """Returns DFTracer's name of an operation of a graph; None for other nodes."""
    base = str(node.target).replace(".", "_")
    if node.op == "call_function":
        return "function." + getattr(node.target, "__name__", str(node.target))
    if node.op == "call_method":
        return "method." + base
    if node.op == "call_module":
        return "%s.%s_%s" % (node.target, type(graph.get_submodule(node.target)).__name__, base)
    return None


def create_detailed_op_name(node, gm):
    """Returns the name of an operation of a graph; for other nodes their kind and target."""
    return _name(gm, node) or "%s.%s" % (node.op, str(node.target).replace(".", "_"))


def __getattr__(name):
    if name == "TORCH_AVAILABLE":
        from importlib.util import find_spec

        return find_spec("torch") is not None
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


class Dynamo(DFTracerAI):
    """The arguments of the spans, and whether spans are recorded."""

    def __init__(self, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
        super().__init__(cat=CAT_DYNAMO, name=name, epoch=epoch, step=step, image_idx=image_idx, image_size=image_size, enable=enable)

    def _traced(self, graph, backward=False):
        """Returns a function that runs a graph with spans."""
        import torch

        names = {}
        for node in graph.graph.nodes:
            name = _name(graph, node)
            if name is not None:
                names[node] = _ring.name(name, CAT_DYNAMO)
        tracer = self

        class Traced(torch.fx.Interpreter):
            def run_node(self, node):
                try:
                    n = names.get(node)
                    if n is None or tracer.off:
                        return super().run_node(node)
                    token = _ring.start(n)
                    try:
                        return super().run_node(node)
                    finally:
                        args = dict(tracer._extra, grad_enabled=int(torch.is_grad_enabled()))
                        _ring.end(token, dict(args, phase="backward") if backward else args)
                except BaseException as e:
                    unframed(e)
                    raise

        traced = Traced(graph)
        # Each run has its own interpreter, which holds the tensors of the run: threads may run at
        # the same time, and no tensor outlives its run.
        return lambda *args: copy.copy(traced).run(*args)

    def _backend(self, autograd):
        if not autograd:
            return lambda graph, example, **_: self._traced(graph)
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        def forward(graph, example, **_):
            return make_boxed_func(self._traced(graph))

        def backward(graph, example, **_):
            return make_boxed_func(self._traced(graph, True))

        return aot_autograd(fw_compiler=forward, bw_compiler=backward)

    def compile(self, f_py=None, autograd=True):
        """Compiles a function or a module, or is a decorator that does. It traces autograd's
        graphs, including the backward; without autograd, the calls of the program."""
        if f_py is None:
            return lambda f: self.compile(f, autograd)
        if self.off:
            return f_py
        import torch

        return torch.compile(f_py, backend=self._backend(autograd))

    def count_parameters(self, module):
        return sum(p.numel() for p in module.parameters()) if hasattr(module, "parameters") else None


def create_backend(name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True, autograd=True):
    """Returns a backend for torch.compile whose spans have these arguments."""
    return Dynamo(name, epoch, step, image_idx, image_size, enable)._backend(autograd)


def dftracer_dynamo_backend(graph, example, **options):
    """The backend with default arguments."""
    return create_backend(enable=DFTRACER_ENABLE)(graph, example, **options)


dynamo = Dynamo()
