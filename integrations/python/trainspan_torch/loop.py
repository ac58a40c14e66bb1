"""Infers iterations, epochs, evaluation and the training loop from the calls of a program, all
on one thread, the training thread.

An iteration lasts from one batch to the next: from the time at which a DataLoader returns a
batch until the request for the next one. Without a DataLoader it lasts until all optimizers in
use have made a step, and without an optimizer, from one backward to the next forward. Only at
its end is it known whether it trained (a backward or an optimizer's step, or a batch whose
first forward was in training mode), evaluated, or did neither and is dropped. An epoch is one
pass of an iterator over its loader. Steps and epochs count from 0 in every process.
"""

import atexit
import collections
import functools
import itertools
import os
import sys
import time
import weakref
from threading import get_ident

from trainspan import _ring, ending, passing, quiet

from .code import Code
from .startup import StartUp

TRAINED, FORWARD, EVALUATED = 1, 2, 4  # what an iteration did; the first forward's mode
# The phases in which the training thread is, and whether the optimizer has made a step.
IN_FORWARD, IN_BACKWARD, IN_WAIT, IN_STEP, STEPPED = 8, 16, 32, 64, 128
INSIDE = IN_FORWARD | IN_BACKWARD | IN_WAIT
RARELY = 63  # the program's own spans are checked in a step that has none of these bits
_NAMES = {
    "application": ("ai_root", "ai_root"), "loop": ("train", "pipeline"), "epoch": ("epoch.block", "pipeline"),
    "iteration": ("train.iteration", "pipeline"), "evaluation": ("evaluate", "pipeline"), "evaluated": ("evaluate.iteration", "pipeline"), "acts": ("rollout", "rollout"),
    "pass": ("fetch.pass", "dataloader"), "setup": ("setup", "pipeline"),
}
_NO_STACK = ((),)
_PHASES = {"evaluated": "evaluation", "acts": "rollout"}  # those of other spans have their names
# The words of a step: the wait before it, and its phases.
PARTS = ("fetch.iter", "dataloader"), ("step.zero_grad", "compute"), ("forward", "compute"), ("backward", "compute"), ("step", "compute")


@quiet
def _again():
    """Returns whether the program is imported again by a process that multiprocessing has
    started (spawn, forkserver): its top-level code is then no training of that process."""
    made = sys.modules.get("multiprocessing.process")
    return made is not None and getattr(made.current_process(), "_inheriting", False)


@quiet
def _process_start():
    """Returns the start of this process, in ns since the epoch, to 10 ms."""
    now = _ring.now()
    with open("/proc/self/stat", "rb") as f:
        ticks = int(f.read().rpartition(b")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return now - max(0, int(age * 1e9))


class Loop:
    """The open inferred spans of this process."""

    # Attributes for values of each step, because the lookup is faster.
    __slots__ = "quick", "frame", "stack", "top", "zeroed", "is_open", "work", "model", "root", "grad", "by_batch", "stepped", "flow", "step", "samples", "tokens", "rarely", "__dict__"

    def __init__(self, on, identify):
        self.on, self.identify = on, identify
        self.names = {key: _ring.name(*name, "torch") for key, name in _NAMES.items()}
        self.names["iteration"] = _ring.name(*_NAMES["iteration"], "torch", 0, tuple(_ring.name(*name, "torch") for name in PARTS))
        self.grad = bool  # torch.is_grad_enabled
        self.start_up = StartUp(self)
        self.code = Code(self)
        self.armed = []     # references to the optimizers
        self.stepped = 0    # steps of optimizers, except most of those with a batch
        self.helper = False  # forked by a process that trains, or ran its model
        self.on_close, self.rarely = None, RARELY  # called after each iteration; if these bits are 0 there is something to check
        self.restore = bool  # called with each backward
        self.reset()
        _ring.slots.stopped = self.slow
        # Called when an iterator is deleted, which may happen anywhere: an exception of a signal
        # handler in a Python function would be lost there. So it is made of builtin functions.
        # Each call takes the next element of two maps, and so calls setattr(self, "gone",
        # clock()) and setattr(self, "quick", 0).
        went, quick = itertools.repeat("gone"), itertools.repeat("quick")
        note = zip(map(setattr, itertools.repeat(self), went, iter(_ring.clock, None)), map(setattr, itertools.repeat(self), quick, itertools.repeat(0)))
        self.note = functools.partial(next, note)

    def reset(self):
        """Resets the state, as after a fork."""
        self.thread = 0         # the training thread, 0 before the first span
        self.quick = 0          # the same if the program's own spans need no check, and of it
        self.frame = None       # the words of the open step in the ring buffer
        self.top = None         # its token: the last in the stack of its thread, if no span is open inside of it
        self.stack = _NO_STACK  # that stack: its last element is never None
        self.zeroed = None      # those in which the word of zero_grad is used
        self.flow = 0           # the iterator of an ordinary iteration, until something unusual happens
        self.trained = False    # a backward or an optimizer step was seen
        self.fed = False        # a DataLoader feeds the training
        self.step = self.epochs = 0
        self.tokens = dict.fromkeys(_NAMES)  # of open spans
        self.taken = set()      # names of spans that the program writes itself
        self.checking = True    # whether that is checked, which is only done at times
        self.entered = False    # the training loop has begun
        self.evaluates = False  # an iteration of this pass has evaluated
        self.is_open = False    # an iteration is open
        self.alone = False      # a forward in evaluation mode outside of any iteration
        self.by_batch = False   # and began with a batch
        self.work = self.samples = self.epoch_from = 0
        self.cycle = {}         # optimizers that made a step in this iteration, and the end of the last of them
        self.used = ()          # those of the previous iteration
        self.root = _nobody     # a reference to the module that trains
        self.model = 0          # and its id
        self.suspect, self.suspected = _nobody, 0  # the module of the last forward in evaluation mode with gradients, and its step
        self.modeless = {}      # references to modules that are trained in that mode, by id
        self.passes = {}        # id of an iterator: a reference that reports its end
        self.feeder = 0         # the iterator of the open epoch
        self.source = None      # the iterator of the last batch
        self.trusted = set()    # other iterators whose batches were trained on
        self.bare = 0           # steps without a backward or an optimizer's step
        self.loose = 0          # steps in a row without a batch, after some with batches
        self.kept = False       # batches came after such steps: there are batches from memory between those of loaders
        self.updates = {}       # the number of steps of each optimizer with this batch
        self.most = 1           # the largest one with a batch, before there were batches from memory
        self.held = None        # the samples of a batch that was not trained on before an evaluation
        self.asked = self.came = None  # the first iterator of an evaluation, and its time; the time of the last batch
        self.evaluated = False  # a forward has evaluated in it
        self.ahead = set()      # the iterators that prefetch a batch before the current one is used, as accelerate does
        self.rest = False       # the training's iterator is exhausted, and its last batch not used
        self.last = 0           # when the evaluation's iterator was exhausted, -1 after its last batch is used
        self.until = None       # end of the last backward, without an optimizer
        self.captured = None    # of the graph that is being captured: its optimizers, or empty
        self.lines = None       # the code, while steps are sampled
        self.code.reset()
        self.gone = 0           # time of the deletion of an iterator or a step inside of a backward, by the clock of the ring buffer; 0 when it is processed
        self.beside = collections.deque()  # references to the optimizers of such steps

    def here(self, trains=False):
        """Returns whether the caller is the training thread: the first one counts as it until
        another one trains."""
        me = get_ident()
        if me != self.thread:
            if _again():
                return False
            if (self.helper or self.thread) and not trains or self.thread and self.trained:
                return False
            self.helper = False
            if self.thread:
                self.leave()
            else:
                self.identify()
                self.at_exit(os.getpid())
                if not _ring.crowded():
                    start = _process_start()
                    self.start("application", start)
                    if self.tokens["application"] is not None:
                        self.start_up.begin(start)
            self.thread = me
        if self.gone and not self.work & IN_BACKWARD:
            self.went()
        self.trained = self.trained or trains
        return True

    def leave(self):
        """Drops the iteration of another thread that does not train, such as one that prefetches
        batches for the training."""
        self.is_open = self.by_batch = False
        self.work = 0
        self.drop("iteration")

    def inside(self, of):
        """Returns whether the caller is the training thread, and inside of given phases."""
        return self.work & of and get_ident() == self.thread

    def at_exit(self, pid):
        """Registers finish for processes of multiprocessing, which run no atexit handlers."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.finish, (pid,), exitpriority=0)
        else:
            atexit.register(self.finish, pid)

    # Spans. Those that the program writes itself are not written.

    def start(self, key, at=None):
        self.flow = 0
        if _PHASES.get(key, key) in self.on and self.tokens[key] is None and not self.left(key):
            step = key == "iteration" and _ring.step(self.names[key], at)
            if step:
                self.frame, self.top = step
                self.tokens[key], self.stack = self.top, self.top[2]
            else:
                self.tokens[key] = _ring.start(self.names[key], at) if at else _ring.start(self.names[key])

    def end(self, key, why=None, name=None, at=None):
        self.flow = 0
        if key == "evaluation":
            at, self.last = self.last if self.last > 0 else at, 0
        token, self.tokens[key] = self.tokens[key], None
        self.alone = False
        if token is not None:
            _ring.end(token, {"inferred": why} if why else None, name and self.names[name], at)

    def drop(self, key):
        self.flow = 0
        token, self.tokens[key] = self.tokens[key], None
        if token is not None and (key != "iteration" or not self.over(token, token[1] | _ring.DROP)):
            _ring.drop(token)

    def over(self, token, w, at=None, step=0):
        """Ends the words of a step by the name w, or drops them; after that the position of the
        training is step. Returns False if the ring buffer had no space for them."""
        v, self.frame, self.top = self.frame, None, None
        if v is not None:
            _ring.end_step(v, token, w, at, step, self.samples)
            return True

    def foreign(self, n):
        """Returns whether the program is inside a span of its own with the name n."""
        if not _ring.inside(n):
            return False
        self.taken.add(n)
        return True

    def left(self, key):
        """Returns whether the program writes these spans itself. Inferred ones may have begun
        before its first one."""
        n = self.names[key]
        if n not in self.taken and self.checking and self.foreign(n):
            if key == "iteration":
                self.drop(key)
            else:
                self.end(key, None, "setup")  # the time before
        return n in self.taken

    @quiet
    def finish(self, pid):
        """Called at the normal end of the process."""
        if pid != os.getpid():
            return
        if self.gone:
            self.went()
        self.boundary(not self.armed, self.until)
        if self.on_close is not None:
            self.on_close()
        self.end("evaluation")
        self.end_epoch()
        self.code.tell()
        self.end("loop", "from the first batch on")
        self.end("application", "the process")
        ending.tell()
        _ring.close()
        self.reset()

    # Iterations.

    def open(self, by_batch, at=None):
        self.is_open, self.by_batch = True, by_batch
        self.work = self.samples = 0
        self.cycle, self.updates = {}, {}
        if not self.step:
            _ring.position(self.epochs, 0, True)
        self.start("iteration", at)
        if self.frame is None:
            self.quick = 0

    def boundary(self, updated=False, at=None):
        """Ends the open iteration. One without a batch counts only if its optimizers have made
        their steps, or if a batch that came before was left for it."""
        if not self.is_open or self.work & IN_WAIT:
            return
        self.is_open, self.flow = False, 0
        work, token = self.work, self.tokens["iteration"]
        self.tokens["iteration"] = None
        self.work = 0
        if self.by_batch:
            trained = work & TRAINED or work & FORWARD and self.trusts()
            if not work & TRAINED:
                self.bare += trained != 0
            elif self.source != self.feeder:
                self.trusted.add(self.source)
        else:
            trained = work & TRAINED and (updated or self.fed and work & FORWARD)
        if trained:
            step = self.step = self.step + 1
            if token is None or not self.over(token, token[1], at, step):
                _ring.end(token, None, None, at, self.samples)
                _ring.position(self.epochs, step, True)
            if self.lines is not None and not self.lines.ended():
                self.lines = None
                self.quicken()
            if self.checking or not step & self.rarely:
                self.now_and_then()
        elif token is not None:
            if work and self.by_batch:
                self.evaluates = self.step == self.epoch_from
            if work and self.by_batch and "evaluation" in self.on:
                # A batch that was requested in training mode can be an evaluation alone.
                asked = self.source == self.feeder and not self.evaluates and self.tokens["evaluation"] is None
                n = self.names["evaluation" if asked else "evaluated"]
                if not self.over(token, n, at):
                    _ring.end(token, None, n, at)
            elif not self.over(token, token[1] | _ring.DROP):
                _ring.drop(token)

    def trusts(self):
        """Returns whether a batch with only a forward in training mode counts as a step. It does
        not if most steps have a backward, but no batch of this iterator had one: the program
        then evaluates in training mode."""
        if 2 * self.bare >= self.step:
            return True
        return self.step > self.epoch_from if self.source == self.feeder else self.source in self.trusted

    @quiet
    def now_and_then(self):
        if self.checking or not self.step & RARELY:
            self.check()
        if self.on_close is not None:
            self.on_close()

    def check(self):
        """Called after an iteration: checks at times which spans the program writes itself."""
        if self.step == 1:
            self.start_up.over()
            self.fed = self.by_batch
            what = "batch of the DataLoader to the next" if self.fed else "step of the optimizers to the next" if self.armed else "forward to the end of its backward"
            _ring.meta("iterations", "inferred, each from one " + what)
        self.checking = self.step < 4 or _ring.slots.shared and not self.step & RARELY or bool(self.taken)
        if self.lines is None and (self.step == 4 or not self.step & RARELY) and self.code.due(self.step):
            self.lines = self.code
        self.quicken()

    def quicken(self):
        """Uses the fast path if nothing is unusual."""
        self.quick = 0 if self.checking or self.gone or self.kept or self.captured is not None or not self.armed or self.lines is not None else self.thread

    def slow(self):
        self.quick = 0

    def differentiates(self):
        """Called for a backward. It has a forward, in any mode."""
        suspect, self.suspect = self.suspect(), _nobody
        if suspect is not None and not suspect.training and self.suspected == self.step:
            if len(self.modeless) >= 64:
                self.modeless = {key: ref for key, ref in self.modeless.items() if ref() is not None}
            if len(self.modeless) < 64:
                self.modeless[id(suspect)] = weakref.ref(suspect)
        return self.trains(TRAINED if self.by_batch and self.is_open else TRAINED | FORWARD)

    def trains(self, did=TRAINED):
        """Called for an operation of training only, or a forward in training mode."""
        if not self.is_open:
            self.end("evaluation")
            self.enter()
            self.resume()
        elif self.checking:
            for key in ("iteration", "epoch", "loop"):
                if self.tokens[key] is not None:
                    self.left(key)
        if did != FORWARD and not self.work & TRAINED:
            root = self.root()
            if root is not None and not root.training:
                self.root = _nobody  # a teacher, not the trained model
            self.end("evaluation")
        self.work |= did
        return True

    def resume(self):
        """Continues with the batch of the time before an evaluation, if there was one."""
        held, self.held = self.held, None
        self.open(held is not None)
        self.samples = held or 0

    def mistaken(self):
        """Called when a batch that was requested in evaluation mode is trained on: the program
        switches the mode after it has the batch. If nothing was evaluated before, there was
        no evaluation."""
        samples, came, (feeder, at) = self.samples, self.came, self.asked
        self.drop("iteration")
        if self.evaluated:
            feeder, at = self.source, came
            self.end("evaluation", None, None, at)
        else:
            self.drop("evaluation")
        self.enter()
        if feeder and not self.feeder:
            self.feeder, self.epoch_from, self.evaluates = feeder, self.step, False
            self.start("epoch", at)
        if self.is_open:
            self.open(True, came)
            self.samples = samples

    def enter(self):
        if not self.entered:
            if _ring.crowded():
                return  # it would outlive a span of the program
            self.entered = True
            self.start("application", _process_start())
            self.start("loop")
            _ring.position(self.epochs, self.step, inferred=True)

    def forward(self, module):
        """Called when the outermost forward begins. The first one of an iteration determines
        its mode: a loss is a module too, and always in training mode."""
        trained = self.is_open and not self.by_batch and self.work & TRAINED
        if trained and not self.armed:
            self.boundary(True, self.until)
        if self.grad() and module.training:
            if self.tokens["evaluation"] is not None and (not self.evaluated or self.is_open and self.by_batch and not self.work & EVALUATED):
                self.mistaken()
            if self.suspect() is not None and next(module.parameters(), None) is not None:
                self.suspect = _nobody  # that was an evaluation
            if not self.work & EVALUATED:
                if not self.work & FORWARD and self.root() is not module:
                    self.root, self.model = weakref.ref(module), id(module)
                self.trains(FORWARD)
            elif self.root() is None:  # it has generated before
                self.root, self.model = weakref.ref(module), id(module)
            return
        if self.grad() and not (self.is_open and self.by_batch):
            if self.modeless.get(id(module), _nobody)() is module and self.tokens["evaluation"] is None:
                self.trains(FORWARD)
                return
            self.suspect, self.suspected = weakref.ref(module), self.step
        self.uses()
        if self.is_open and not self.by_batch and not self.work & (TRAINED | FORWARD):
            self.is_open, self.work = False, 0
            self.drop("iteration")
        if not self.is_open or self.work & TRAINED and not self.grad() and not module.training and self.root() is module:
            alone = "acts" if module.training and self.acts(module) else "evaluated"
            self.start(alone)
            self.alone = self.tokens[alone] is not None
        elif not self.work & FORWARD:
            self.work |= EVALUATED
            self.quick = 0
            if self.root() is None and not self.work & TRAINED:  # else it trains in that mode
                self.root = weakref.ref(module)

    def acts(self, module):
        """Returns whether a forward in training mode, but without gradients, makes data for the
        training, as in reinforcement learning: there is no loader, and it is no loss."""
        root = self.root()
        if self.fed or not self.armed or self.tokens["evaluation"] is not None or root is not None and not root.training:
            return False
        return root is module or next(module.parameters(), None) is not None

    def uses(self):
        """Called when the current batch is used for other work than training."""
        self.evaluated, self.last = True, -1 if self.last else 0

    @quiet
    def judged(self):
        """Called when a forward outside of any iteration has ended, and with it an evaluation
        whose loader has no more batches."""
        self.end("evaluated")
        self.end("acts")
        if self.last:
            self.end("evaluation")
            if self.held is not None:
                self.resume()

    def generates(self, model):
        """Called when a model generates: its use of a batch without training is evaluation.
        Returns whether it is part of an evaluation."""
        if self.grad() and model.training:
            if self.tokens["evaluation"] is not None:
                self.mistaken()
            if self.rest and not self.is_open:
                self.resume()
        self.uses()
        if self.is_open and self.by_batch and not self.work & FORWARD:
            self.work |= EVALUATED
            self.quick = 0
        return self.tokens["evaluation"] is not None

    @quiet
    def arm(self, optimizer):
        """Called when an optimizer is created."""
        self.start_up.other()
        self.armed = [o for o in self.armed if o() is not None] + [weakref.ref(optimizer)]
        self.helper = False

    def updated(self, optimizer):
        """Called when an optimizer has made a step. The iteration ends when all optimizers in
        use have made one: those of the previous iteration, in the first one all. If one
        makes a second step, the others are not waited for.

        An iteration with a batch ends with the next batch. If batches also come from memory
        (itertools.cycle), one ends when an optimizer makes more steps than it did with any batch
        before that."""
        if not self.is_open or not self.by_batch and self.fed and not self.work & FORWARD:
            return  # or the last step of accumulated gradients, after the last batch
        me = id(optimizer)
        if self.by_batch:
            n = self.updates[me] = self.updates.get(me, 0) + 1
            if n <= self.most or not self.kept:
                self.most = max(self.most, n)
                self.cycle[me] = _ring.now()
                return
        if me in self.cycle:
            self.used, at = set(self.cycle), max(self.cycle.values())
            self.boundary(True, at)
            self.open(False, at)
            self.work |= TRAINED
        self.cycle[me] = _ring.now()
        if self.cycle.keys() >= (self.used or {id(o()) for o in self.armed}):
            self.used = set(self.cycle)
            self.boundary(True)
            self.loose += 1
            if not self.fed or self.loose > 1:
                self.open(False)

    def updated_inside(self, optimizer):
        """Called when an optimizer has made a step inside of a backward, on the training thread
        or on one of autograd. The training thread takes it into account in its first hook after
        the backward."""
        if self.work & IN_BACKWARD and (self.kept or not self.by_batch):
            self.beside.append(weakref.ref(optimizer))
            self.note()

    def saves(self):
        """Called when a checkpoint is saved, which is not part of the last batch of an
        evaluation."""
        if self.is_open and self.work and not self.work & (TRAINED | FORWARD):
            self.boundary()

    # Data.

    def flows(self, iterator):
        """Returns whether an iteration is ordinary: with a batch of the iterator of the epoch."""
        tokens = self.tokens
        if self.by_batch and self.feeder == iterator and tokens["iteration"] is not None and tokens["evaluation"] is None:
            self.flow = iterator
            return True

    def unfed(self, v):
        """Called when a step that began with a wait for a batch has received none: returns its
        start."""
        token = self.top
        self.tokens["iteration"] = self.frame = self.top = None
        self.work = 0
        _ring.end_step(v, token, token[1])
        return v[1] - _ring.clock() + _ring.now()

    def asks(self, iterator):
        """Called when a batch is requested, or (None) an iterator of a loader."""
        waits = self.is_open and self.by_batch and not self.work and self.source == self.feeder
        samples = self.samples
        if self.is_open and self.by_batch and not self.work and self.source == id(iterator):
            self.ahead.add(self.source)
        self.boundary()
        root = self.root()
        if not self.grad() or root is not None and not root.training:
            if waits and self.held is None:
                self.held = samples
            if not (self.feeder and self.evaluates):
                if self.tokens["evaluation"] is None:
                    self.asked, self.evaluated = (0, None), False
                if iterator is not None and not self.asked[0]:
                    self.asked = id(iterator), _ring.now()
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
                self.feeder, self.epoch_from, self.evaluates = id(iterator), self.step, False
                self.start("epoch")

    def got(self, iterator, samples):
        """Called when a batch has come, of so many samples."""
        if id(iterator) not in self.passes:
            self.follow(iterator, id(iterator))
        self.source = id(iterator)
        if self.loose:
            self.kept, self.quick, self.loose = True, 0, 0
        if self.source == self.feeder:
            self.held, self.rest = None, False
        if not self.is_open:
            self.open(True)
        self.came = _ring.now()
        self.samples = samples

    def follow(self, iterator, key):
        self.passes[key] = weakref.ref(iterator, self.note)

    def went(self):
        """Ends the passes of deleted iterators, at the time of their deletion, and takes the
        steps inside of a backward into account."""
        at, self.gone = self.gone - _ring.clock() + _ring.now(), 0
        while self.beside:
            optimizer = self.beside.popleft()()
            if optimizer is not None:
                self.updated(optimizer)
                self.quicken()
        for key in [key for key, iterator in self.passes.items() if iterator() is None]:
            self.ended(key, at)
        if not self.is_open:
            self.quicken()

    def ended(self, key, at=None):
        """Called when a pass over a loader has ended: exhausted, or abandoned."""
        if self.passes.pop(key, None) is None or get_ident() != self.thread:
            return
        if self.by_batch:
            self.boundary(False, at)
        rest = key in self.ahead
        self.ahead.discard(key)
        self.trusted.discard(key)
        if rest and self.tokens["evaluation"] is not None:
            self.last = at or _ring.now()
            return
        self.end("evaluation", None, None, at)
        if key == self.feeder:
            self.rest = rest
            self.end_epoch(at)
        elif self.held is not None and not self.is_open:
            self.resume()

    def end_epoch(self, at=None):
        if not self.feeder:
            return
        self.feeder = 0
        if self.step > self.epoch_from:
            self.end("epoch", "one pass over the DataLoader", None, at)
            self.epochs += 1
            _ring.position(self.epochs, self.step, True)
        else:
            self.end("epoch", None, "evaluation" if self.evaluates else "pass", at)


def _nobody():
    return None
