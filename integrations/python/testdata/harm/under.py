"""Runs a program under a condition in which telemetry must not affect it:

    under.py CONDITION PROGRAM [ARGUMENT...]
"""

import ctypes
import importlib.machinery
import importlib.util
import os
import resource
import runpy
import sys

condition, sys.argv = sys.argv[1], sys.argv[2:]
sys.path[0] = os.path.dirname(sys.argv[0])


class Cuda:
    """A build of PyTorch for a device that must not be queried."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            sys.modules["torch.version"].cuda = "12.4"
            setattr(module, condition, forbidden)

        spec.loader.exec_module = exec_module
        return spec


def forbidden(*args, **kwargs):
    os.write(2, b"asked by " + sys._getframe(1).f_code.co_filename.encode())
    os._exit(97)


if condition in ("is_available", "device_count", "synchronize"):
    sys.meta_path.insert(0, Cuda())
elif condition == "address space":
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
elif condition == "file size":
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, but a program need not
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
elif condition == "locked":
    assert ctypes.CDLL(None, use_errno=True).mlockall(1 | 2) == 0, os.strerror(ctypes.get_errno())
elif condition == "found before":  # like libraries that check whether PyTorch is installed
    assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch")
elif condition == "no rights":
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
runpy.run_path(sys.argv[0], run_name="__main__")
if condition == "locked":
    with open("/proc/self/status") as f:
        locked = next(int(line.split()[1]) for line in f if line.startswith("VmLck"))
    rings = [os.path.join(os.environ["TRAINSPAN_RING"], n) for n in os.listdir(os.environ["TRAINSPAN_RING"])]
    assert 0 < locked < 4 << 20 and sum(os.stat(n).st_blocks * 512 for n in rings) < 8 << 20, (locked, rings)
