"""Infers iterations, epochs, evaluation and the training loop from what a
program calls. All of it happens on one thread, the one that trains.

An iteration lasts from one batch to the next: from the moment a DataLoader
hands over a batch until the next one is asked for. Where no DataLoader feeds
the training, it lasts from one step of the first optimizer to the next. Only
at its end is it known whether it trained (a backward or an optimizer's step, or
a batch whose first forward was in training mode), evaluated, or was neither and
is left out. An epoch is one pass of an iterator over its loader. Steps and
epochs count from 0 in every process.
"""

import atexit
import functools
import itertools
import os
import sys
import time
import weakref
from threading import get_ident

from trainspan import _ring, quiet

_TRAINED, _FORWARD, _EVALUATED = 1, 2, 4  # what an iteration did; the first forward's mode
_NAMES = {
    "application": ("ai_root", "ai_root"), "loop": ("train", "pipeline"), "epoch": ("epoch.block", "pipeline"),
    "iteration": ("train.iteration", "pipeline"), "evaluation": ("evaluate", "pipeline"), "evaluated": ("evaluate.iteration", "pipeline"),
    "pass": ("fetch.pass", "dataloader"), "setup": ("setup", "pipeline"),
}


@quiet
def _process_start():
    """When this process began, in ns since the epoch, to 10 ms."""
    now = _ring.now()
    with open("/proc/self/stat", "rb") as f:
        ticks = int(f.read().rpartition(b")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return now - max(0, int(age * 1e9))


class Loop:
    """What is open of the inferred spans of this process."""

    def __init__(self, on, identify):
        self.on, self.identify = on, identify
        self.names = {key: _ring.name(*name, "torch") for key, name in _NAMES.items()}
        self.n = self.names["iteration"]
        self.program = {key: _ring.name(*name) for key, name in _NAMES.items()}
        self.grad = bool  # torch.is_grad_enabled
        self.armed = False  # there is an optimizer
        self.helper = False  # forked by a process that trains, or tried its model
        self.on_close = None  # called after each iteration
        self.reset()
        # What runs when an iterator goes: nothing of ours, since that may be anywhere, and
        # what a handler of a signal raises there would be lost. It notes the time.
        went, quick = itertools.repeat("gone"), itertools.repeat("quick")
        note = zip(map(setattr, itertools.repeat(self), went, iter(_ring.clock, None)), map(setattr, itertools.repeat(self), quick, itertools.repeat(0)))
        self.note = functools.partial(next, note)

    def reset(self):
        """Forgets everything, as after a fork."""
        self.thread = 0         # the thread that trains, 0 before the first span
        self.quick = 0          # the same where nothing is asked of the program's own spans
        self.trained = False    # a backward or an optimizer step was seen
        self.fed = False        # a DataLoader feeds the training
        self.step = self.epochs = 0
        self.tokens = dict.fromkeys(_NAMES)  # of open spans
        self.taken = set()      # what the program writes itself
        self.checking = True    # whether it does is asked now and then only
        self.entered = False    # the training loop has begun
        self.evaluates = False  # an iteration of this pass has evaluated
        self.is_open = False    # an iteration is under way
        self.alone = False      # a forward that evaluates, outside of any
        self.by_batch = False   # and began with a batch
        self.work = self.samples = self.epoch_step = 0
        self.clock = 0          # the optimizer whose steps count
        self.root = _nobody     # a reference to the module that trains
        self.model = 0          # and its id
        self.passes = {}        # id of an iterator: a reference that reports its end
        self.feeder = 0         # the iterator of the open epoch
        self.gone = 0           # when an iterator has gone, by the clock of the ring; 0 when that is known

    def here(self, trains=False):
        """Whether the caller is the training thread: the first one is taken for it
        until another one trains."""
        me = get_ident()
        if me != self.thread:
            if (self.helper or self.thread) and not trains or self.thread and self.trained:
                return False
            self.helper = False
            if not self.thread:
                self.identify()
                self.at_exit(os.getpid())
                if not _ring.crowded():
                    self.start("application", _process_start())
            self.thread = me
        if self.gone:
            self.went()
        self.trained = self.trained or trains
        return True

    def at_exit(self, pid):
        """Processes of multiprocessing run no atexit handlers."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.finish, (pid,), exitpriority=0)
        else:
            atexit.register(self.finish, pid)

    # Spans. Those that the program writes itself are left to it.

    def start(self, key, at=None):
        if (key in self.on or key == "evaluated" and "evaluation" in self.on) and self.tokens[key] is None and not self.left(key):
            self.tokens[key] = _ring.start(self.names[key], at) if at else _ring.start(self.names[key])

    def end(self, key, why=None, name=None, at=None):
        token, self.tokens[key] = self.tokens[key], None
        self.alone = False
        if token is not None:
            _ring.end(token, {"inferred": why} if why else None, name and self.names[name], at)

    def drop(self, key):
        token, self.tokens[key] = self.tokens[key], None
        if token is not None:
            _ring.drop(token)

    def foreign(self, n):
        """Whether the program is inside a span n of its own."""
        if not _ring.inside(n):
            return False
        self.taken.add(n)
        return True

    def left(self, key):
        """Whether the program writes these spans itself. Ours may have begun before
        its first one."""
        n = self.program[key]
        if n not in self.taken and self.checking and self.foreign(n):
            if key == "iteration":
                self.drop(key)
            else:
                self.end(key, None, "setup")  # what came before
        return n in self.taken

    @quiet
    def finish(self, pid):
        """The process ends in good order."""
        if pid != os.getpid():
            return
        if self.gone:
            self.went()
        self.boundary()
        self.end("evaluation")
        self.end_epoch()
        self.end("loop", "from the first batch on")
        self.end("application", "the process")
        _ring.close()
        self.reset()

    # Iterations.

    def open(self, by_batch):
        self.is_open, self.by_batch = True, by_batch
        self.work = self.samples = 0
        if not self.step:
            _ring.position(self.epochs, 0, True)
        self.start("iteration")

    def boundary(self, updated=False, at=None):
        """The open iteration is over. One without a batch of its own counts only when
        its optimizer has made a step, or where the batch had come before."""
        if not self.is_open:
            return
        self.is_open = False
        work, token = self.work, self.tokens["iteration"]
        self.tokens["iteration"] = None
        self.work = 0
        if self.by_batch:
            trained = work & (_TRAINED | _FORWARD)
        else:
            trained = work & _TRAINED and (self.fed or updated)
        if trained:
            step = self.step = self.step + 1
            self.epoch_step += 1
            if token is not None:
                _ring.end(token, None, None, at, self.samples)
            _ring.position(self.epochs, step, True)
            if self.checking or not step & 15:
                self.check()
            if self.on_close is not None:
                self.on_close()
        elif token is not None:
            if work and self.by_batch:
                self.evaluates = not self.epoch_step
                if "evaluation" in self.on:
                    _ring.end(token, None, self.names["evaluated"], at)
                else:
                    _ring.drop(token)
            else:
                _ring.drop(token)

    def check(self):
        """After an iteration: asks now and then what the program writes itself."""
        if self.step == 1:
            self.fed = self.by_batch
            what = "batch of the DataLoader" if self.fed else "step of the first optimizer"
            _ring.meta("iterations", "inferred, each from one " + what + " to the next")
        self.checking = self.step < 4 or not self.step & 15 or bool(self.taken)
        self.quick = 0 if self.checking or self.gone else self.thread

    def trains(self, did=_TRAINED):
        """Something that only training does, or a forward in training mode."""
        if not self.is_open:
            self.end("evaluation")
            self.enter()
            self.open(False)
        elif self.checking:
            for key in ("iteration", "epoch", "loop"):
                if self.tokens[key] is not None:
                    self.left(key)
        if did == _TRAINED and not self.work & _TRAINED:
            root = self.root()
            if root is not None and not root.training:
                self.root = _nobody  # a teacher, not what is trained
            self.end("evaluation")
        self.work |= did
        return True

    def enter(self):
        if not self.entered:
            if _ring.crowded():
                return  # it would outlive a span of the program
            self.entered = True
            self.start("application", _process_start())
            self.start("loop")
            _ring.position(self.epochs, self.step, inferred=True)

    def forward(self, module):
        """The outermost forward begins. The first one of an iteration says in which
        mode it is: a loss is a module too, and always in training mode."""
        if self.grad() and module.training:
            if not self.work & _EVALUATED:
                if not self.work & _FORWARD and self.root() is not module:
                    self.root, self.model = weakref.ref(module), id(module)
                self.trains(_FORWARD)
            return
        if self.is_open and not self.by_batch and not self.work & _TRAINED:
            self.is_open = False
            self.drop("iteration")
        if not self.is_open:
            self.start("evaluated")
            self.alone = self.tokens["evaluated"] is not None
        elif not self.work & _FORWARD:
            self.work |= _EVALUATED
            self.quick = 0
            if self.root() is None:
                self.root = weakref.ref(module)

    def updated(self, optimizer):
        """An optimizer has made a step."""
        if self.is_open and not self.by_batch and not self.fed:
            self.clock = self.clock or id(optimizer)
            if self.clock == id(optimizer):
                self.boundary(True)
                self.open(False)

    # Data.

    def next_wait(self, iterator, n):
        """The quick way from one iteration to the next: the program trained on the
        batch before, and asks the same iterator for another one. Starts the span n of
        the wait, or gives None."""
        tokens, root = self.tokens, self.root()
        token = tokens["iteration"]
        if not self.work & _TRAINED or self.feeder != iterator or token is None or root is None or not root.training:
            return None
        if not (self.by_batch and self.grad()) or tokens["evaluation"] is not None:
            return None
        tokens["iteration"], self.is_open = None, False
        self.epoch_step += 1
        step = self.step = self.step + 1
        token = _ring.next_span(token, n, self.samples, step)
        if not step & 15:
            self.check()
        if self.on_close is not None:
            self.on_close()
        return token

    def next_iteration(self, token, batch):
        """The wait is over."""
        self.tokens["iteration"] = _ring.next_span(token, self.n)
        self.work, self.samples, self.is_open = 0, _samples(batch) or 0, True

    def asks(self, iterator):
        """A batch is asked for, or (None) a loader for an iterator."""
        self.boundary()
        root = self.root()
        if not self.grad() or root is not None and not root.training:
            if not (self.feeder and self.evaluates):
                self.start("evaluation")
            return
        if self.tokens["evaluation"] is not None:
            self.end("evaluation")
        if not self.entered:
            if not self.armed:
                return
            self.enter()
        if iterator is not None:
            if self.feeder and self.feeder not in self.passes:
                self.end_epoch()
            if not self.feeder:
                self.feeder, self.epoch_step, self.evaluates = id(iterator), 0, False
                self.start("epoch")

    def got(self, iterator, batch):
        """A batch has come."""
        if id(iterator) not in self.passes:
            self.follow(iterator, id(iterator))
        if not self.is_open:
            self.open(True)
        self.samples = _samples(batch) or 0

    def follow(self, iterator, key):
        self.passes[key] = weakref.ref(iterator, self.note)

    def went(self):
        """Ends the passes whose iterators are gone, when they went."""
        at, self.gone = self.gone - _ring.clock() + _ring.now(), 0
        for key in [key for key, iterator in self.passes.items() if iterator() is None]:
            self.ended(key, at)
        if not self.is_open and not self.checking:
            self.quick = self.thread

    def ended(self, key, at=None):
        """A pass over a loader has ended: exhausted, or given up."""
        if self.passes.pop(key, None) is None or get_ident() != self.thread:
            return
        if self.by_batch:
            self.boundary(False, at)
        self.end("evaluation", None, None, at)
        if key == self.feeder:
            self.end_epoch(at)

    def end_epoch(self, at=None):
        if not self.feeder:
            return
        self.feeder = 0
        if self.epoch_step:
            self.end("epoch", "one pass over the DataLoader", None, at)
            self.epochs += 1
            _ring.position(self.epochs, self.step, True)
        else:
            self.end("epoch", None, "evaluation" if self.evaluates else "pass", at)


def _nobody():
    return None


@quiet
def _samples(batch):
    """The length of the first tensor of a batch."""
    kind = type(batch)
    while kind is list or kind is tuple or kind is dict:
        batch = next(iter(batch.values())) if kind is dict else batch[0]
        kind = type(batch)
    size = batch.size(0)
    return size if type(size) is int and 0 <= size < 1 << 62 else None
