"""DFTracer's dft_fn: spans of a category, as a context manager, a decorator and an
iterator."""

import sys
from threading import get_ident

from . import _ring, compiling, passing, quiet, traced_as, unframed
from ._log import _KEYS, DFTRACER_ENABLE, _gather, _meta, _number, _plain, _relate, dftracer


class _Id(int):
    """The id of a name. It is pickled as the name, because another process has other ids."""

    def __reduce__(self):
        if self not in _ring.named:  # the id that stands for names without one
            return _Id, (int(self),)
        name, cat, variant, above, args = _ring.named[self]
        return _id, (name, cat, variant, above and _Id(above), args)


def _id(*key):
    return _Id(_ring.name(*key))


def _like(call, f):
    """Gives call the names of f. Since Python 3.14 annotations are evaluated when they are read,
    which is up to the program: they may have names that do not exist yet."""
    annotations = "__annotate__" if getattr(f, "__annotate__", None) else "__annotations__"
    for attr in ("__module__", "__name__", "__qualname__", "__doc__", annotations, "__type_params__"):
        try:
            setattr(call, attr, getattr(f, attr))
        except AttributeError:
            pass
    call.__dict__.update(getattr(f, "__dict__", ()))
    call.__wrapped__ = f
    return call


def _itself(self, *args, **kwargs):
    return self


def _nothing(*args, **kwargs):
    return None


def _absent(self, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
    """Makes a dft_fn that records nothing."""
    self.off, self._wanted, self._t, self._cat, self._name = True, False, 0, "", ""
    self._arguments = self._extra = {}
    self._open, self._relations, self._last = {}, {}, {}


def _wrap(n, f, node, arguments=None):
    """Wraps f in spans n, with the result of arguments for the arguments of a call. The wrapper
    can be pickled by value, as cloudpickle does with the functions of a script. It is not
    traced_as(f): Dynamo looks at no attribute of the function that it compiles itself."""
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_wrap(n, f.__func__, node, arguments))
    n = _Id(n)
    if _awaited(f):

        async def call(*args, **kwargs):
            span = _begin(n, node, arguments, args, kwargs)
            try:
                value = await f(*args, **kwargs)
            except BaseException as e:
                _finish(n, node, span, True)
                unframed(e)
                raise
            _finish(n, node, span)
            return value

    else:

        def call(*args, **kwargs):  # without the calls of _begin and _finish, which take as long as a span
            if compiling():
                return f(*args, **kwargs)
            token = given = None
            try:
                if not node.off:
                    given = arguments(args, kwargs) or None if arguments is not None else None
                    token = _ring.start(n, None, None, True)
                value = f(*args, **kwargs)
            except BaseException as e:
                _finish(n, node, (token, given), True)
                unframed(e)
                raise
            if token is not None:
                _ring.drop(token) if node.off else _ring.end(token, given)
            return value

    call = _like(call, f)
    call.__trainspan__ = n
    return call


def _within(node, f):
    """Wraps f in a with statement of a node whose class overrides it."""
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_within(node, f.__func__))
    if _awaited(f):

        async def call(*args, **kwargs):
            try:
                with node:
                    return await f(*args, **kwargs)
            except BaseException as e:
                unframed(e)
                raise

    else:

        def call(*args, **kwargs):
            if compiling():
                return f(*args, **kwargs)
            try:
                with node:
                    return f(*args, **kwargs)
            except BaseException as e:
                unframed(e)
                raise

    call = _like(call, f)
    call.__trainspan__ = node._n
    return call


def _yields(f):
    """Returns whether a function is a generator function, also an asynchronous one."""
    return getattr(getattr(getattr(f, "__func__", f), "__code__", None), "co_flags", 0) & 0x320 in (0x20, 0x200)


def _resumed(node, f):
    """Wraps a generator function in a with statement of a node, each time when it runs: not while
    the program uses what it has yielded."""
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_resumed(node, f.__func__))
    if f.__code__.co_flags & 0x200:

        async def call(*args, **kwargs):
            g = f(*args, **kwargs)
            resume, given = g.asend, None
            try:
                while True:
                    with node:
                        try:
                            values, given = [await resume(given)], None
                        except StopAsyncIteration:
                            return
                    try:
                        resume, given = g.asend, (yield values.pop())
                    except GeneratorExit:
                        await g.aclose()
                        raise
                    except BaseException as e:
                        resume, given = g.athrow, e
            except BaseException as e:
                unframed(e)
                raise

    else:

        def call(*args, **kwargs):
            if compiling():
                return (yield from f(*args, **kwargs))
            g = f(*args, **kwargs)
            resume, given = g.send, None
            try:
                while True:
                    with node:
                        try:
                            values, given = [resume(given)], None
                        except StopIteration as e:
                            return e.value
                    try:
                        resume, given = g.send, (yield values.pop())
                    except GeneratorExit:
                        g.close()
                        raise
                    except BaseException as e:
                        resume, given = g.throw, e
            except BaseException as e:
                unframed(e)
                raise

    call = _like(call, f)
    call.__trainspan__ = node._n
    return call


def _awaited(f):
    """Returns whether a function is a coroutine function."""
    return getattr(getattr(f, "__code__", None), "co_flags", 0) & 0x180


def _begin(n, node, arguments, args, kwargs):
    if node.off:
        return None, None
    given = arguments(args, kwargs) if arguments is not None else None
    return _ring.start(n), given or None


def _finish(n, node, span, failed=None):
    token, args = span
    if token is None:
        return
    if node.off:
        _ring.drop(token)
    elif failed is None:
        _ring.end(token, args)
    else:
        _ring.stop(n, args, failed, token)


def _iterate(node, iterator, names, count_key="count"):
    """Returns the elements of an iterator, with a span for the wait for each and one for the
    work on it. If the body exits early, its span ends. Spans that begin or end while the
    node is off are not recorded."""
    waits, works = names
    clock, counted, plain = _ring.clock, _ring.counted, count_key == "count"
    count, said = 0, False
    try:
        t = 0 if node.off else clock()
        if t and waits:
            said = True
            _ring.fetches(waits, True)
        for value in iterator:
            count += 1
            on = not node.off
            if on and t and waits:
                if plain and not node._extra:
                    counted(waits, t, None, count)
                else:
                    _ring.event(waits, t + _ring.now() - clock(), _ring.now(), dict(node._extra, **{count_key: count}))
            token = _ring.start(works) if works and on else None
            values, value = [value], None  # the program alone keeps it in memory
            try:
                yield values.pop()
            finally:
                if token is not None:
                    if node.off:
                        _ring.drop(token)
                    elif plain and not node._extra:
                        counted(works, 0, token, count)
                    else:
                        _ring.end(token, dict(node._extra, **{count_key: count}))
            t = 0 if node.off else clock()
            if waits and said != bool(t):
                said = not said
                _ring.fetches(waits, said)
    except BaseException as e:
        unframed(e)
        raise
    finally:
        if said:
            _ring.fetches(waits, False)


def _parameters(f, names):
    """Returns a function that finds parameters of f by name in the arguments of a call."""
    code = getattr(f, "__code__", None)
    if code is None or not hasattr(f, "__defaults__"):
        return None
    of_self = code.co_argcount > 0 and code.co_varnames[0] == "self"
    at = {name: i for i, name in enumerate(code.co_varnames[: code.co_argcount]) if name in names}
    others = [name for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount] if name in names]
    found = dict.fromkeys(list(at) + others)
    if not found and not of_self:
        return None
    if f.__defaults__:
        found.update((name, f.__defaults__[i - code.co_argcount]) for name, i in at.items() if i >= code.co_argcount - len(f.__defaults__))
    found.update((name, value) for name, value in (f.__kwdefaults__ or {}).items() if name in others)

    def parameters(args, kwargs):
        given = {name: getattr(args[0], name, None) for name in names} if of_self and args else {}
        given.update((name, value) for name, value in found.items() if value is not None)
        for name, i in at.items():
            if i < len(args):
                given[name] = args[i]
        for name in found:
            if name in kwargs:
                given[name] = kwargs[name]
        return given

    return parameters


def _parameter(key, value):
    """Returns a parameter of the program as an argument. A text where a number is expected must
    not make the call of the program's function fail."""
    try:
        return _number(key, value)
    except Exception as e:
        passing(e)
        return _plain(value)


class dft_fn:
    """Spans of a category: a context manager, a decorator of functions by log, and
    an iterator."""

    @traced_as(_absent)  # it may leave the compiled code
    def __init__(self, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
        self._enable = enable
        self._cat, self._open = str(cat), {}
        self._name = str(name or sys._getframe(1).f_code.co_name)
        self._arguments = self._extra = {} if self.off else _gather({}, None, (epoch, step, image_idx, image_size))
        self._relations, self._last = {}, {}
        self._t = 0 if self.off else _ring.now()

    @property
    def _enable(self):
        return self._wanted

    @_enable.setter
    def _enable(self, on):
        self._wanted, self.off = bool(on), not (on and DFTRACER_ENABLE)

    def __getstate__(self):
        return dict(self.__dict__, _open={})

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._enable = self._wanted  # another process may not be recorded

    _flush = False

    _arguments_int = property(lambda self: self._given(int))
    _arguments_float = property(lambda self: self._given(float))
    _arguments_string = property(lambda self: self._given(str))

    def _given(self, kind):
        return {key: (0, value) for key, value in dict(self._arguments, **self._last).items() if isinstance(value, kind)}

    @traced_as(_itself)
    def __enter__(self):
        if not self.off:
            self._open.setdefault(get_ident(), []).append(_ring.start(_ring.name(self._name, self._cat)))
        return self

    @traced_as(_nothing)
    def __exit__(self, kind, error, trace):
        tokens = self._open.get(get_ident())
        if tokens:
            _finish(_ring.name(self._name, self._cat), self, (tokens.pop(), self._all()), None if kind is None else True)
            if not tokens:
                self._open.pop(get_ident(), None)

    def _all(self):
        """Returns all arguments of an event that ends now."""
        args, self._relations = dict(self._arguments, **self._relations), {}
        return args or None

    @traced_as(_itself)
    def update(self, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        if not self.off:
            _gather(self._arguments, args, (epoch, step, image_idx, image_size))
        return self

    @traced_as(_nothing)
    @quiet
    def relate(self, relation, entity):
        """Relates the event that ends next to an entity."""
        if not self.off and entity and int(relation) < 16:
            _relate(self._relations, relation, [entity])
        return self

    def relate_entity(self, relation, type, key, store=0, uri=""):
        entity = 0 if self.off else dftracer.get_instance().declare_entity(type, key, store, uri)
        self.relate(relation, entity)
        return entity

    def uses(self, type, key, store=0, uri=""):
        return self.relate_entity(0, type, key, store, uri)

    def generates(self, type, key, store=0, uri=""):
        return self.relate_entity(1, type, key, store, uri)

    @traced_as(_itself)
    def flush(self):
        """Records the time since the object was made, entered or reset."""
        if self._open and self._open.get(get_ident()):
            self.__exit__(None, None, None)
        elif not self.off:
            _ring.event(_ring.name(self._name, self._cat), self._t, _ring.now(), self._all())
        return self

    @traced_as(_itself)
    def reset(self):
        self._t = 0 if self.off else _ring.now()
        return self

    def log(self, func=None, name=None):
        """Decorates functions. Their parameters epoch, step, image_idx and image_size become
        arguments, and so do the attributes of an object with these names."""
        return self._log(func, name, _KEYS)

    def log_init(self, init=None, name=None):
        return self._log(init, name, _KEYS)

    def log_static(self, func=None, name=None):
        return self._log(func, name, ())

    def _log(self, func, name, keys):
        if not callable(getattr(func, "__func__", func)):
            return lambda f: self._log(f, name, keys)
        if self.off:
            return func
        inner = getattr(func, "__func__", func) if isinstance(func, (staticmethod, classmethod)) else func
        n = _ring.name(name or getattr(inner, "__qualname__", type(inner).__qualname__), self._cat)
        parameters = _parameters(inner, keys) if keys else None

        def arguments(args, kwargs):
            given = dict(self._arguments)
            try:
                if parameters is not None:
                    found = parameters(args, kwargs)
                    self._last = {key: _parameter(key, found[key]) for key in _KEYS if found.get(key) is not None}
                    given.update(self._last)
            except Exception as e:
                passing(e)
            return given

        return _wrap(n, inner if keys == () else func, self, arguments)

    @traced_as(_nothing)
    def log_metadata(self, key, value):
        if not self.off:
            _meta(key, value)

    def iter(self, func, name="loop", iter_name="step"):
        names = [_ring.name(name + end, self._cat) for end in (".iter", ".yield")]
        return _iterate(self, func, names, iter_name)
