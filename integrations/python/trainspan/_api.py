"""Spans, steps and metrics of a program: the functions of `import trainspan as ts`."""

import contextvars
import itertools

from . import _ring, passing, quiet, traced_as
from ._fn import _Id, _itself, _nothing, _resumed, _within, _wrap, _yields

_on = _ring.wanted  # in a program that is not recorded, spans do nothing

# Names that the report knows as phases of a step, or as work beside the steps.
_PHASES = {
    "data": ("fetch.iter", "dataloader"), "forward": ("forward", "compute"), "backward": ("backward", "compute"),
    "optimizer": ("step", "compute"), "update": ("update", "compute"), "compile": ("graph_compile", "compile"), "checkpoint": ("capture", "checkpoint"), "evaluation": ("evaluate", "pipeline"),
}  # fmt: skip


# The uses of spans that are used several times at once, in each thread or task: the last one as
# a list of its span, None after its end, its token and the use before it.
_uses = contextvars.ContextVar("trainspan.uses", default=None)


class Span:
    """A span of the program: `with`, `async with` or a decorator. It can be used several times,
    also at the same time by threads and tasks."""

    # _open has the token of the first open use by 0, and each use that began during another
    # one by its id.
    __slots__ = ("_n", "_args", "_open")
    off = False  # of _wrap

    def __init__(self, n, args):
        self._n, self._args, self._open = n, args, {}

    def __reduce__(self):
        return _copied, (type(self), _Id(self._n), self._args)

    @traced_as(_itself)
    def __enter__(self):
        token = _ring.start(self._n)
        if self._open.setdefault(0, token) is not token:
            before = _uses.get()
            while before is not None and before[0] is None:
                before = before[2]
            use = [self, token, before]
            self._open[id(use)] = use
            _uses.set(use)
        return self

    @quiet
    def _ended(self):
        """Returns the token of the use that ends: the last one of this thread or task, else the
        first one, else any, because callbacks may start and stop a span in different
        tasks."""
        use = _uses.get()
        while use is not None and use[0] is not self:
            use = use[2]
        if use is None:
            token = self._open.pop(0, None)
            if token is not None or not self._open:
                return token
            use = self._open.popitem()[1]
        else:
            self._open.pop(id(use), None)
        use[0] = None
        return use[1]

    @traced_as(_nothing)
    def __exit__(self, kind=None, error=None, trace=None):
        token = self._open.pop(0, None) if len(self._open) == 1 else None
        if token is None and self._open:
            token = self._ended()
        if kind is None:
            _ring.end(token, self._args)
        elif token is not None:
            _ring.stop(self._n, self._args, True, token)

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, kind=None, error=None, trace=None):
        self.__exit__(kind, error, trace)

    def start(self):
        """Starts the span if a with statement is not possible: in the callbacks of a trainer.
        stop ends it."""
        return self.__enter__()

    @traced_as(_nothing)
    def stop(self):
        """Ends the span of start; does nothing without a start."""
        if self._open:
            self.__exit__()

    def __call__(self, f):
        if _yields(f):
            return _resumed(self, f)
        return _wrap(self._n, f, self, (lambda args, kwargs: self._args) if self._args else None)

    @traced_as(_itself)
    def add(self, **args):
        """Adds arguments, which are recorded at the end of the span."""
        self._args = dict(self._args or (), **args)
        return self


class Step(Span):
    """The span of a step, which has a number."""

    __slots__ = ("_number",)

    def __init__(self, n, args, number):
        super().__init__(n, args)
        self._number = number

    def __reduce__(self):
        return _copied, (Step, _Id(self._n), self._args, self._number)

    @traced_as(_itself)
    def __enter__(self):
        number, self._number = self._number, None  # a decorator continues from it
        try:
            _ring.position(None, _next(number))
        except Exception as e:
            passing(e)
        return super().__enter__()

    def __call__(self, f):
        return _resumed(self, f) if _yields(f) else _within(self, f)


class Off:
    """A span of a program that is not recorded."""

    __slots__ = ()
    off = True  # of _wrap

    def __enter__(self):
        return self

    def __exit__(self, kind=None, error=None, trace=None):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind=None, error=None, trace=None):
        pass

    def __call__(self, f):
        return f

    start = __enter__

    def stop(self):
        pass

    def add(self, **args):
        return self


_off = Off()


def _copied(kind, *args):
    """Returns the copy of a span, which may be in another process. Its uses are not copied."""
    return kind(*args) if _on else _off


_numbers = itertools.count()


def _next(number):
    """Returns the number of the next step: the given one, or the last one plus one."""
    global _numbers
    if number is not None:
        _numbers = itertools.count(number)
    return next(_numbers)


@traced_as(lambda name, **args: Off())
def span(name, **args):
    """Returns a span: `with ts.span("generate", tokens=n):`, or a decorator of a function,
    async too, or start() and stop() in the callbacks of a trainer. Of a generator function each
    time when it runs is a span. Its arguments are numbers
    or text, and add(tokens=n) adds more before its end. The report knows "data", "forward",
    "backward" and "optimizer" as phases of a step, "update" as the last three in one, and
    "compile", "checkpoint" and "evaluation" as work beside the steps; other names are those
    of the program."""
    if not _on:
        return _off
    name, cat = _PHASES.get(str(name), (name, "span"))
    return Span(_ring.name(name, cat), args or None)


@traced_as(lambda number=None, **args: Off())
def step(number=None, **args):
    """Returns the span of a training step: `with ts.step():` around each, or a decorator of the
    function that runs one, or start() and stop(). Steps are numbered from 0, or from number
    on."""
    if callable(number):  # @ts.step
        return step(None, **args)(number)
    if not _on:
        return _off
    return Step(_ring.name("train.iteration", "pipeline"), args or None, number)


@traced_as(_nothing)
def metric(**values):
    """Records current numbers: `ts.metric(loss=loss.item())`. It does not read tensors, because
    that might wait for their device."""
    if _on:
        _ring.point(_ring.name("metric", "metric"), values)
