"""Pools that make batches ahead: threads, or processes with shared memory.

Both offer submit(indices, place) -> ticket, result(ticket, timeout), forget(ticket),
close(). Results come in any order that they are asked for.
"""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as _FutureTimeout
from multiprocessing import TimeoutError as _ProcessTimeout
from multiprocessing import connection, get_context, reduction

import numpy as np

from ... import _plait
from ... import random as mx_random
from ...error import MXNetError
from ...util import is_np_array, is_np_shape, set_np
from .batchify import BatchMaker, default_batchify_fn, numpy_batchify
from .shared import Inbox, Outbox


class DataLoaderTimeout(MXNetError, _ProcessTimeout, TimeoutError):
    """A batch did not come in time."""


def _late(timeout, what):
    return DataLoaderTimeout(
        "DataLoader: no batch after %g seconds; %s. Is the data set's __getitem__ that "
        "slow, or "
        "does it wait for something? See timeout=, or debug with num_workers=0"
        % (timeout, what)
    )


class ThreadPool:
    """Worker threads of this process."""

    def __init__(self, num_workers, dataset, batchify, skip):
        self._make = BatchMaker(dataset, batchify, skip)
        self._pool = ThreadPoolExecutor(
            num_workers, "plait-data", set_np, (is_np_shape(), is_np_array())
        )

    def submit(self, indices, place):
        """Starts a batch."""
        return self._pool.submit(self._observed, indices, place)

    def _observed(self, indices, place):
        start = _plait.wait_begin()
        try:
            return self._make(indices, place)
        finally:
            _plait.wait_end("DataLoader.batch", start)

    def result(self, ticket, timeout):
        """The batch; its exception is raised here."""
        try:
            return ticket.result(timeout)
        except (_FutureTimeout, TimeoutError):
            if ticket.done():  # it was the data set that raised it
                raise
            raise _late(timeout, "the worker threads are still busy") from None
        finally:
            del ticket  # its exception's traceback would hold it, and it the exception

    def forget(self, ticket):
        """The batch is not wanted any more."""
        ticket.cancel()

    def close(self):
        """Lets threads end after the batch that they are at."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessPool:
    """Worker processes, started by 'fork', 'spawn' or 'forkserver'."""

    def __init__(self, num_workers, dataset, batchify, method, skip):
        context = get_context(method)
        self._workers = []
        self._tickets = 0
        self._results = {}  # ticket -> (ok, value)
        self._forgotten = set()
        self._lock = threading.RLock()
        if batchify is default_batchify_fn:
            batchify = numpy_batchify
        for number in range(num_workers):
            self._workers.append(_Worker(context, number, dataset, batchify, skip))

    def submit(self, indices, place):
        """Gives a batch to the worker with the fewest."""
        with self._lock:
            self._tickets += 1
            worker = min(self._workers, key=lambda w: len(w.tickets))
            worker.send((self._tickets, indices, place))
            return self._tickets

    def result(self, ticket, timeout):
        """The batch; an exception of the worker is raised here."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while ticket not in self._results:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _late(timeout, "the worker processes are still busy")
                self._receive(left)
            ok, value = self._results.pop(ticket)
        if not ok:
            raise value
        return value

    def _receive(self, timeout):
        """Waits for news of any worker, and takes it in."""
        for ready in connection.wait([w.pipe for w in self._workers], timeout):
            worker = next(w for w in self._workers if w.pipe is ready)
            ticket, ok, value = worker.receive()
            if ticket in self._forgotten:
                self._forgotten.discard(ticket)
            else:
                self._results[ticket] = (ok, value)

    def forget(self, ticket):
        """The batch is not wanted any more."""
        with self._lock:
            if self._results.pop(ticket, None) is None:
                self._forgotten.add(ticket)

    def close(self):
        """Ends the workers."""
        for worker in self._workers:
            worker.close()
        self._workers = []


class _Worker:
    """The parent's side of a worker process."""

    def __init__(self, context, number, dataset, batchify, skip):
        self.pipe, theirs = context.Pipe()
        self.tickets = []
        self._number = number
        self._inbox = Inbox(self.pipe)
        self.process = context.Process(
            target=_serve,
            name="plait-data-%d" % number,
            daemon=True,
            args=(theirs, dataset, batchify, skip, is_np_shape(), is_np_array()),
        )
        self.process.start()
        theirs.close()

    def send(self, task):
        """Sends a task, with the numbers of segments that may be used again."""
        try:
            self.pipe.send((task, self._inbox.take_free()))
        except (BrokenPipeError, ConnectionError):
            raise self._dead() from None
        self.tickets.append(task[0])

    def receive(self):
        """(ticket, ok, value) of the next finished task."""
        try:
            ticket, ok, content = self.pipe.recv()
            value = self._inbox.open(content) if ok else content
        except (EOFError, ConnectionError):
            raise self._dead() from None
        self.tickets.remove(ticket)
        return ticket, ok, value

    def _dead(self):
        self.process.join(1)
        code = self.process.exitcode
        how = (
            "signal %s" % signal.Signals(-code).name
            if code is not None and code < 0
            else "exit code %s" % code
        )
        return RuntimeError(
            "DataLoader: worker process %d died (%s) while it made a batch"
            % (self._number, how)
        )

    def close(self):
        """Asks the process to end, and ends it if it does not."""
        try:
            self.pipe.send((None, ()))
        except (OSError, ValueError):
            pass
        self.pipe.close()
        self._inbox.close()
        if self.process.pid is not None and _is_ours(self.process):
            self.process.join(0.1 if not self.tickets else 0)
            if self.process.is_alive():
                self.process.terminate()
                self.process.join(5)


def _is_ours(process):
    """False in a forked child, where the parent's workers must be left alone."""
    return getattr(process, "_parent_pid", os.getpid()) == os.getpid()


def _serve(pipe, dataset, batchify, skip, np_shape, np_array):
    """A worker process: makes batches until the parent says stop or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    set_np(shape=np_shape, array=np_array)
    outbox = Outbox(pipe)
    make = BatchMaker(dataset, batchify, skip)
    while True:
        try:
            task, free = pipe.recv()
            if task is None:
                return
            outbox.release(free)
            ticket, indices, place = task
            try:
                _seed(place.batch_seed())
                content = outbox.pack(make(indices, place))
            except Exception as e:
                pipe.send((ticket, False, _portable(e)))
                continue
            pipe.send((ticket, True, content))
            outbox.send_new_segment()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return


def _seed(seed):
    """Generators of the batch, so that results do not depend on which
    worker makes it.
    """
    random.seed(seed)
    np.random.seed(seed)
    mx_random.seed(seed)


def _portable(error):
    """The exception with the worker's traceback as its cause; as a text if it cannot
    travel.
    """
    wrapped = reduction_error(error)
    try:
        reduction.ForkingPickler.loads(reduction.ForkingPickler.dumps(wrapped))
        return wrapped
    except Exception:
        return RuntimeError(
            "DataLoader: a worker failed with %s: %s" % (type(error).__name__, error)
        )


def reduction_error(error):
    """`error` in the form in which multiprocessing's own pools send exceptions."""
    from multiprocessing.pool import ExceptionWithTraceback

    return ExceptionWithTraceback(error, error.__traceback__)
