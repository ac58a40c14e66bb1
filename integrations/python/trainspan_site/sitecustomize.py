"""Loads trainspan into every Python process under `trainspan run`.

This module imports only modules that the interpreter has loaded already: any other module of
the standard library would hide one of the program with the same name. It reads the client,
because its folder may be deleted later, and runs it when the program imports it, or torch.

Python imports the first sitecustomize in its path, so this one imports the program's own in its
place: an error of that one, or its absence, has the same effect as without this one. Nothing
here may raise or print, and this file must also be valid in Python 2.
"""

import os
import sys
import time  # a part of the interpreter

try:
    import _thread
except ImportError:  # Python 2
    _thread = None


SHORT = 1000000  # ns: shorter imports are not recorded in a start

# Frameworks whose steps need a few lines in the program: those of docs/guide/recipes.md.
FRAMEWORKS = "jax", "keras", "lightgbm", "ray", "tensorflow", "xgboost"


class _Client:
    """Finds the client's modules in memory, lets the client watch the modules of torch, and
    measures the time of imports until the training begins."""

    def __init__(self, folder):
        self.begun = self.now()
        self.folder = folder
        self.spec = _spec()
        self.started = False  # torch was imported
        self.watched = {}     # functions to call when a module has run, by its name
        self.timing = True
        self.running = []     # running imports of one thread: package, start, ns of its own imports
        self.thread = 0       # this thread
        self.packages = {}    # of the running import: ns of each package
        self.imports = []     # imports of the program: start, end, packages
        self.heard = None     # receives those when the recording has started
        # The settings of trainspan run; the program may change its environment.
        self.environ = {key: value for key, value in os.environ.items() if key.startswith("TRAINSPAN_")}
        self.texts = {}  # of the modules, by their names: path and position in the combined file
        with open(os.path.join(folder, "trainspan", "modules"), "rb") as f:
            self.all = f.read()
        at = 0
        while at < len(self.all):
            end = self.all.index(b"\n", at) + 1
            size, path = self.all[at:end].decode().split()
            at = end + int(size)
            name = path[:-3].replace("/", ".")
            self.texts[name[:-9] if name.endswith(".__init__") else name] = os.path.join(folder, path), end, at

    now = staticmethod(time.monotonic_ns) if hasattr(time, "monotonic_ns") else None

    def find_spec(self, name, path=None, target=None):
        if name in self.texts:
            file = self.texts[name][0]
            if path is None:  # the program may have a module with that name before this folder
                before = sys.path[: sys.path.index(self.folder)] if self.folder in sys.path else None
                spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, before)
                if spec is not None and spec.loader is not None and spec.origin != file:
                    return spec
            spec = sys.modules["_frozen_importlib"].ModuleSpec(name, self, origin=file)
            spec.has_location = True
            if os.path.basename(file) == "__init__.py":
                spec.submodule_search_locations = [os.path.dirname(file)]
            return spec
        if name == "torch" and not self.started:
            self.start()
        at = self.times(name) and self.now()
        if not at and name not in self.watched:
            return None
        rest = sys.meta_path
        for finder in rest[rest.index(self) + 1 :] if self in rest else ():
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if at and name in FRAMEWORKS:
                    _leave("framework-" + name)
                if type(spec) is self.spec.__base__ and hasattr(spec.loader, "exec_module"):
                    spec.__class__ = self.spec
                    spec._trainspan = self, at, []
                return spec
        return None

    def times(self, name):
        """Returns whether an import is part of the start: not beside that of another thread, and
        not by a module of the same package. A search for a module does not import it."""
        if not self.timing:
            return False
        if self.running and (self.thread != _thread.get_ident() or self.running[-1][0] == name.partition(".")[0]):
            return False
        caller = sys._getframe(2).f_back
        return caller is not None and caller.f_code.co_name == "_find_and_load_unlocked"

    def start(self):
        """Called when torch is imported."""
        self.started = True
        try:
            import trainspan_torch

            self.watched = trainspan_torch.install()
        except BaseException as e:
            try:
                from trainspan import alien
            except ImportError:  # another module has that name
                return
            if alien(e):
                self.started = False
                raise
        self.timing = self.timing and bool(self.watched)

    def runs(self, spec):
        """Called when a module begins to run."""
        _, at, place = spec._trainspan
        if at and (not self.running or self.thread == _thread.get_ident()):
            self.thread = _thread.get_ident()
            place.append(len(self.running))
            self.running.append([spec.name.partition(".")[0], at, 0])

    def ran(self, spec):
        """Called when a module has run or failed."""
        _, at, place = spec.__dict__.pop("_trainspan")
        spec.__class__ = self.spec.__base__
        if place and place[0] < len(self.running):
            package, at, inside = self.running[place[0]]
            del self.running[place[0] :]
            took = self.now() - at
            self.packages[package] = self.packages.get(package, 0) + took - inside
            if self.running:
                self.running[-1][2] += took
            else:
                self.imported(at, at + took)
        if spec.name in self.watched and spec.name in sys.modules:
            self.watched.pop(spec.name)(sys.modules[spec.name])

    def imported(self, begin, end):
        """Called when the program has imported something. An import that follows at once is
        part of it."""
        last, packages, self.packages = self.imports and self.imports[-1], self.packages, {}
        if last and begin - last[1] < SHORT:
            last[1] = end
            for package in packages:
                last[2][package] = last[2].get(package, 0) + packages[package]
        elif self.timing:
            if last and last[1] - last[0] < SHORT:
                self.imports.pop()
            self.imports.append([begin, end, packages])
        if self.heard is not None and self.imports:
            self.tell()

    def tell(self):
        """Passes the recorded imports on."""
        imports, self.imports = self.imports, []
        for begin, end, packages in imports:
            if end - begin >= SHORT:
                self.heard(begin, end, packages)

    def create_module(self, spec):
        return None

    def get_code(self, name):  # for python -m
        file, begin, end = self.texts[name]
        return compile(self.all[begin:end], file, "exec")

    def exec_module(self, module):
        exec(self.get_code(module.__name__), module.__dict__)
        if module.__name__ == "trainspan":
            module.environ, module.client = self.environ, self


def _spec():
    """The class of a spec during the import of its module. Python's import sets _initializing
    before the module runs, and after its end in any case: so the module has its own loader,
    and its errors have no frame of the client."""

    class ModuleSpec(sys.modules["_frozen_importlib"].ModuleSpec):
        __slots__ = ()

        @property
        def _initializing(self):
            return self.__dict__.get("_initializing", False)

        @_initializing.setter
        def _initializing(self, value):
            self.__dict__["_initializing"] = value
            client = self.__dict__.get("_trainspan", (None,))[0]
            if client is not None:
                (client.runs if value else client.ran)(self)

    return ModuleSpec


def _note(here):
    """Leaves a note for `trainspan run`: a Python of this version has run, and has an installed
    client of its own."""

    def own():
        found = [p for p in sys.path if os.path.abspath(p) != here and os.path.exists(os.path.join(p, "trainspan", "_ring.py"))]
        return os.path.abspath(found[0]).encode(sys.getfilesystemencoding()) if found else b""

    _leave("python-%d.%d" % sys.version_info[:2], own)


_folder = os.environ.get("TRAINSPAN_RING", "").split(os.pathsep)[-1]  # the program may change its environment


def _leave(name, text=bytes):
    """Leaves a file with a note for `trainspan run`, unless it exists."""
    try:
        path = os.path.join(_folder, name + ".names")
        if _folder and not os.path.exists(path):
            f = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(f, text())
            os.close(f)
    except Exception as e:  # the folder is missing, or full
        try:
            from trainspan import interrupted
        except ImportError:  # another module has that name
            return
        if interrupted(e):
            raise


def _ended():
    """Records the error with which the process failed."""
    try:
        if getattr(sys, "last_value", None) is not None:
            from trainspan import ending

            ending.tell()
    except Exception:
        pass


def _start(folder):
    try:
        _note(folder)
        if sys.version_info >= (3, 8) and not [f for f in sys.meta_path if type(f).__name__ == "_Client"]:
            sys.meta_path.insert(0, _Client(folder))
            if "torch" in sys.modules:
                sys.meta_path[0].find_spec("torch")
            if "atexit" in sys.builtin_module_names:  # so that it hides no module of the program
                import atexit

                atexit.register(_ended)
            if os.environ.get("DFTRACER_DATA_DIR"):
                from trainspan import files

                files.install(files.wanted())
    except Exception:
        pass


def _next(folder):
    """Returns the program's own sitecustomize, which finds its path as without this folder."""
    before = [(i, p) for i, p in enumerate(sys.path) if os.path.abspath(p) == folder]
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != folder]
    here = sys.modules.pop("sitecustomize", None)  # noqa: F841 Python 2 empties a module that nobody has
    try:
        import sitecustomize  # noqa: F401
    finally:
        for i, p in before:
            if p not in sys.path:
                sys.path.insert(i, p)


_start(os.path.dirname(os.path.abspath(__file__)))
_next(os.path.dirname(os.path.abspath(__file__)))
