"""Profiler: Chrome/Perfetto traces and tables of the core's and the user's own events.

The core feeds operator events through ``_plait.profiler_start()``, ``profiler_stop()``
and ``profiler_events()``, which hands over and forgets what was recorded: tuples (name,
category, device, thread, begin, end, layer), times in microseconds of the monotonic
clock. Everything else (tasks, counters, files, tables) is here.
"""

import atexit
import json
import os
import sys
import threading
import time
import warnings

from .profiler_table import Aggregate

__all__ = [
    "set_config",
    "set_state",
    "dump",
    "dumps",
    "pause",
    "resume",
    "Domain",
    "Task",
    "Frame",
    "Event",
    "Counter",
    "Marker",
    "profiler_set_config",
    "profiler_set_state",
    "dump_profile",
    "set_kvstore_handle",
]

_CONFIG = {
    "profile_all": False,
    "profile_symbolic": True,
    "profile_imperative": True,
    "profile_memory": True,
    "profile_api": True,
    "filename": "profile.json",
    "continuous_dump": True,
    "dump_period": 1.0,
    "aggregate_stats": False,
    "profile_process": "worker",
}


def _now():
    return time.monotonic_ns() / 1000.0


class _Profiler:
    """The state of the process's profiler; one lock guards it all."""

    def __init__(self):
        self.lock = threading.RLock()
        self.config = dict(_CONFIG)
        self.running = False
        self.paused = False
        self.trace = []  # Chrome events that are not yet forgotten
        self.stats = Aggregate()
        self.pids = {}  # device or domain -> number in the trace
        self.dumper = None

    @property
    def active(self):
        """Whether events are recorded now."""
        return self.running and not self.paused

    def pid(self, name):
        """The trace's process number of a device or domain."""
        if name not in self.pids:
            self.pids[name] = len(self.pids)
            self.trace.append(
                {
                    "ph": "M",
                    "name": "process_name",
                    "pid": self.pids[name],
                    "args": {"name": name},
                }
            )
        return self.pids[name]

    def span(self, name, category, where, begin, end, thread=None, args=None):
        """Records a finished interval."""
        with self.lock:
            event = {
                "name": name,
                "cat": category,
                "ph": "X",
                "ts": begin,
                "dur": end - begin,
                "pid": self.pid(where),
                "tid": threading.get_ident() if thread is None else thread,
            }
            if args:
                event["args"] = args
            self.trace.append(event)
            self.stats.add(category, name, (end - begin) / 1000.0)

    def point(self, phase, name, category, where, **more):
        """Records a counter value or a marker."""
        with self.lock:
            self.trace.append(
                {
                    "name": name,
                    "cat": category,
                    "ph": phase,
                    "ts": _now(),
                    "pid": self.pid(where),
                    "tid": threading.get_ident(),
                    **more,
                }
            )

    def switch(self):
        """Tells the core whether to record."""
        from . import _plait

        control = getattr(
            _plait, "profiler_start" if self.active else "profiler_stop", None
        )
        if control is not None:
            control()
        names = sys.modules.get(__package__ + ".gluon.layer_names")
        if names is not None:
            names.switch(self.active)

    def collect(self):
        """Takes over what the core recorded since the last time."""
        from . import _plait

        events = getattr(_plait, "profiler_events", None)
        if events is None:
            return
        for name, category, device, thread, begin, end, layer in events():
            self.span(
                name,
                category,
                device,
                begin,
                end,
                thread,
                {"layer": layer} if layer else None,
            )

    def write(self):
        """Writes the whole trace, aside and then renamed, so that it is valid at any
        time.
        """
        with self.lock:
            self.collect()
            text = json.dumps({"traceEvents": self.trace, "displayTimeUnit": "ms"})
        from .util import atomic_write

        atomic_write(self.config["filename"], text.encode())


class _Dumper(threading.Thread):
    """Writes the trace every `dump_period` seconds while the profiler runs, more
    seldom once writing takes long.
    """

    def __init__(self, period):
        super().__init__(daemon=True, name="plait-profiler")
        self.period = period
        self.stopped = threading.Event()

    def run(self):
        pause = self.period
        while not self.stopped.wait(pause):
            begin = time.monotonic()
            _state.write()
            pause = max(self.period, 10 * (time.monotonic() - begin))


_state = _Profiler()


def is_active():
    """Whether events are recorded now."""
    return _state.active


def set_config(**kwargs):
    """Sets options before the profiler runs; an existing output file is deleted.

    profile_all, profile_symbolic, profile_imperative, profile_memory, profile_api: what
    to record. filename: the trace. continuous_dump, dump_period: write it every so many
    seconds. aggregate_stats: keep tables for dumps().
    """
    unknown = set(kwargs) - set(_CONFIG)
    if unknown:
        from .error import MXNetValueError

        raise MXNetValueError(
            "profiler.set_config: unknown option %s; known are %s"
            % (", ".join(sorted(unknown)), ", ".join(_CONFIG))
        )
    with _state.lock:
        _state.config.update(kwargs)
        if "filename" in kwargs and os.path.exists(kwargs["filename"]):
            os.remove(kwargs["filename"])


def set_state(state="stop", profile_process="worker"):
    """'run' starts recording, 'stop' ends it."""
    if state not in ("run", "stop"):
        raise ValueError(
            "profiler.set_state: got %r; expected 'run' or 'stop'" % (state,)
        )
    with _state.lock:
        was, _state.running = _state.running, state == "run"
        if was and not _state.running:
            _state.collect()
        _state.switch()
        _run_dumper(_state.running and _state.config["continuous_dump"])


def _run_dumper(wanted):
    if wanted and _state.dumper is None:
        _state.dumper = _Dumper(float(_state.config["dump_period"]))
        _state.dumper.start()
    elif not wanted and _state.dumper is not None:
        _state.dumper.stopped.set()
        _state.dumper = None


def pause(profile_process="worker"):
    """Stops recording until resume()."""
    with _state.lock:
        _state.collect()
        _state.paused = True
        _state.switch()


def resume(profile_process="worker"):
    """Goes on recording after pause()."""
    with _state.lock:
        _state.paused = False
        _state.switch()


def dump(finished=True, profile_process="worker"):
    """Writes the trace to the configured file; with finished=True recording ends."""
    _finish_pending_work()
    _state.write()
    if finished:
        set_state("stop")


def dumps(reset=False, format="table", sort_by="total", ascending=False):
    """The aggregate statistics as a text table or as JSON.

    sort_by: 'total', 'avg', 'min', 'max' or 'count'. reset forgets them afterwards.
    """
    if format not in ("table", "json"):
        raise AssertionError(
            "Invalid value provided for format: %r. Support: 'table', 'json'"
            % (format,)
        )
    if reset not in (False, True) or ascending not in (False, True):
        raise AssertionError("reset and ascending must be False or True")
    _finish_pending_work()
    with _state.lock:
        _state.collect()
        text = _state.stats.render(format, sort_by, ascending)
        if reset:
            _state.stats = Aggregate()
    return text


def _finish_pending_work():
    if _state.running:
        from . import nd

        nd.waitall()


class Domain:
    """A group of the user's own events, one row of processes in the trace."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def new_task(self, name):
        """A Task of this domain."""
        return Task(self, name)

    def new_frame(self, name):
        """A Frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name, value=None):
        """A Counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name):
        """A Marker of this domain."""
        return Marker(self, name)


class _Interval:
    """Something with start() and stop(); also a `with` block."""

    _category = "event"

    def __init__(self, where, name):
        self.name = name
        self._where = where
        self._begin = None

    def start(self):
        """Begins the interval."""
        self._begin = _now() if _state.active else None

    def stop(self):
        """Ends the interval and records it."""
        if self._begin is not None and _state.active:
            _state.span(self.name, self._category, self._where, self._begin, _now())
        self._begin = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.stop()

    def __str__(self):
        return self.name


class Task(_Interval):
    """A piece of work in a domain; may span threads."""

    _category = "task"

    def __init__(self, domain, name):
        super().__init__(domain.name, name)


class Frame(_Interval):
    """A repeated interval in a domain, such as an iteration."""

    _category = "frame"

    def __init__(self, domain, name):
        super().__init__(domain.name, name)


class Event(_Interval):
    """An interval of the calling thread, without a domain."""

    def __init__(self, name):
        super().__init__("event", name)


class Counter:
    """A number over time; += and -= work."""

    def __init__(self, domain, name, value=None):
        self.name = name
        self._where = domain.name
        self._value = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value):
        """Sets the counter."""
        self._value = value
        if _state.active:
            _state.point(
                "C", self.name, "counter", self._where, args={self.name: value}
            )

    def increment(self, delta=1):
        """Adds delta."""
        self.set_value(self._value + delta)

    def decrement(self, delta=1):
        """Takes delta away."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta):
        self.increment(delta)
        return self

    def __isub__(self, delta):
        self.decrement(delta)
        return self

    def __str__(self):
        return self.name


class Marker:
    """A point in time."""

    _SCOPES = {"process": "p", "thread": "t", "global": "g", "task": "t"}

    def __init__(self, domain, name):
        self.name = name
        self._where = domain.name

    def mark(self, scope="process"):
        """Records the present moment; scope is process, thread, global or task."""
        if _state.active:
            _state.point(
                "i", self.name, "marker", self._where, s=self._SCOPES.get(scope, "p")
            )

    def __str__(self):
        return self.name


def set_kvstore_handle(handle):
    """Accepted for old scripts; server profiling comes with the distributed store."""


def profiler_set_config(mode="symbolic", filename="profile.json"):
    """[deprecated] Use set_config."""
    warnings.warn(
        "profiler_set_config() is deprecated; use set_config()",
        DeprecationWarning,
        stacklevel=2,
    )
    set_config(**{"profile_" + mode: True, "filename": filename})


def profiler_set_state(state="stop"):
    """[deprecated] Use set_state."""
    warnings.warn(
        "profiler_set_state() is deprecated; use set_state()",
        DeprecationWarning,
        stacklevel=2,
    )
    set_state(state)


def dump_profile():
    """[deprecated] Use dump."""
    warnings.warn(
        "dump_profile() is deprecated; use dump()", DeprecationWarning, stacklevel=2
    )
    dump(True)


def _at_exit():
    if _state.running:
        set_state("stop")
        _state.write()


atexit.register(_at_exit)
if os.environ.get("PLAIT_PROFILE"):
    set_config(filename=os.environ["PLAIT_PROFILE"])
    set_state("run")
elif os.environ.get("MXNET_PROFILER_AUTOSTART", "0") not in ("", "0"):
    set_state("run")
