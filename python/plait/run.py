"""plait-run: starts one script as several processes (ranks) that train together.

    plait-run -n 4 [--hostfile FILE] [--restarts N] script.py [arguments]

A thin layer over Open MPI's mpirun: each rank gets its share of the cores of its
machine, what ranks print is marked with their number, and a job that has failed can be
started again, from the checkpoint that the script reads. With Open MPI 5 those that
outlive another may go on (plait.distributed.shrink). `mpirun` and `srun` start the same
scripts as well. The arguments of MXNet's tools/launch.py are understood.

This file stands for itself: in the ranks it runs before the package is imported.
"""

import argparse
import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

# What a rank's supervisor says, within the output of the script: also within a line,
# since a script may write one in pieces.
NOTE = re.compile("\x1eplait-run ([a-z]+) ([^\x1e]*)\x1e\n$")
PIPE = "PLAIT_RUN_PIPE"  # where a rank says that another is lost
# Instead, from plait.distributed.shrink: for how many seconds it waits for the others,
# and how many ranks go on.
SHRINK = re.compile("\x1d(shrinking|shrunk) ([0-9]+)\n$")
FORWARDED = ("PLAIT_", "MXNET_", "OMP_", "DMLC_", "PYTHON", "LD_LIBRARY_PATH", "PATH")
HIDDEN = re.compile(
    r"^\[[^\]]*\] PMIX ERROR: .* in file .*pmix_event_notification\.c at line \d+$"
)


def parser():
    p = argparse.ArgumentParser(
        prog="plait-run",
        description="Starts a script as several processes that train together.",
    )
    p.add_argument(
        "-n", "--num-workers", type=int, required=True, metavar="N", help="processes"
    )
    p.add_argument(
        "-H",
        "--hostfile",
        metavar="FILE",
        help="machines, one a line: NAME or NAME slots=COUNT; default: this one",
    )
    p.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="start a failed job again up to N times; PLAIT_RESTART counts them",
    )
    p.add_argument(
        "--grace",
        type=float,
        default=30,
        metavar="SECONDS",
        help="after a failure the other ranks have this long to end (default 30)",
    )
    p.add_argument(
        "--heartbeat",
        type=float,
        metavar="SECONDS",
        help="a rank that is silent for this long is lost (PLAIT_HEARTBEAT, 30)",
    )
    p.add_argument(
        "--threads",
        type=int,
        metavar="T",
        help="threads of each rank (default: its share of its machine's cores)",
    )
    p.add_argument(
        "--no-bind", action="store_true", help="let every rank use all the cores"
    )
    p.add_argument(
        "--no-prefix", action="store_true", help="do not mark output with the rank"
    )
    p.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="for all ranks"
    )
    p.add_argument(
        "--mpirun",
        metavar="PATH",
        help="that of Open MPI 4 or 5 to use (default: the first in PATH)",
    )
    p.add_argument(
        "--mpirun-args",
        default="",
        metavar="ARGS",
        help="more arguments of mpirun, in one word",
    )
    old = p.add_argument_group("understood as MXNet's launch.py has them")
    old.add_argument(
        "-s", "--num-servers", type=int, help="ignored: every rank is also a server"
    )
    old.add_argument(
        "--launcher", default="mpi", choices=["local", "ssh", "mpi", "sge", "yarn"]
    )
    old.add_argument("--env-worker", action="append", default=[], metavar="NAME:VALUE")
    old.add_argument("--env-server", action="append", default=[], metavar="NAME:VALUE")
    old.add_argument("--sync-dst-dir", help="not done: use a shared folder")
    old.add_argument("--p3", action="store_true", help="ignored: order is by priority")
    p.add_argument("command", nargs=argparse.REMAINDER, help="script.py, or a command")
    return p


def command_of(words):
    """The program and its arguments: a script is run by this interpreter."""
    if words and words[0] == "--":
        words = words[1:]
    if not words:
        raise SystemExit("plait-run: no script was given")
    if words[0].endswith(".py"):
        return [sys.executable, *words]
    return words


# In each rank: a supervisor that mpirun starts, and that starts the script.


def cores():
    """The CPUs that this process may use; those that share a core stand together."""

    def place(cpu):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology/"
        try:
            with open(folder + "physical_package_id") as package:
                with open(folder + "core_id") as core:
                    return int(package.read()), int(core.read()), cpu
        except (OSError, ValueError):
            return 0, cpu, cpu

    return sorted(os.sched_getaffinity(0), key=place)


def share(all_cores, index, count):
    """The cores of the index-th of `count` ranks on one machine; all when too few."""
    if count > len(all_cores):
        return all_cores
    return all_cores[
        index * len(all_cores) // count : (index + 1) * len(all_cores) // count
    ]


def prepare(threads, bind):
    """Binds this process to its share of the cores, and says how many threads."""
    index = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    count = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    everything = cores()
    mine = share(everything, index, count)
    if bind and mine != everything:
        os.sched_setaffinity(0, mine)
    fair = 1 if count > len(everything) else len(mine)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads or fair))


def die_with(parent):
    """Makes the system kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def note(what, text):
    """Tells plait-run something, in one piece."""
    text = str(text).rstrip().replace("\x1e", " ")
    os.write(1, f"\x1eplait-run {what} {text}\x1e\n".encode())


def pass_on(pipe):
    """Tells plait-run what this rank says of the job."""
    for text in pipe:
        found = SHRINK.match(text)
        if found:
            note(*found.groups())
        elif not text.startswith("\x1d"):
            note("fault", text)


def end_as(status):
    """Ends this process by a signal: that which has ended the script, if one has."""
    number = signal.Signals(-status) if status < 0 else signal.SIGKILL
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def supervise(command, threads, bind, version):
    """Runs the script, and tells plait-run by a line how it has ended."""
    prepare(threads, bind)
    if version >= 5:
        die_with(os.getppid())  # else ranks outlive an mpirun that was killed
    me = os.getpid()
    read, write = os.pipe()
    script = subprocess.Popen(
        command,
        preexec_fn=lambda: die_with(me),
        pass_fds=[write],
        env={**os.environ, PIPE: str(write)},
    )
    os.close(write)
    pipe = os.fdopen(read, errors="replace")
    passing = threading.Thread(target=pass_on, args=(pipe,), daemon=True)
    passing.start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda n, _: script.send_signal(n))
    status = script.wait()
    passing.join(1)  # what it said last; a process that it has left may hold the pipe
    note("ended", status)
    # plait-run reads the line. mpirun of Open MPI 5 must see a process that a signal
    # has ended, to tell the other ranks' MPI; it ends the job when one fails.
    if version >= 5 and status != 0:
        end_as(status)
    return 0


# In plait-run.


class Output:
    """Passes on what ranks print, line by line, and collects how they ended."""

    # mpirun puts it before each piece that it has read of a rank, also within a line.
    TAG = r"\[\d+,(\d+)\]<(?:stdout|stderr|stddiag)>:"

    def __init__(self, prefix, count, version):
        self.prefix = prefix
        self.tag = re.compile(self.TAG + (" " if version >= 5 else ""))
        self.members = set(range(count))  # those that make up the job
        self.ended = {}  # in the order in which they have
        self.fault = None
        self.shrunk = {}  # rank: how often it has gone on
        self.shrinking = {}  # rank: when its wait in shrink() is over
        self.lock = threading.Lock()

    def read(self, stream, to):
        begun = {}  # rank: the start of a line
        for line in stream:
            own, *pieces = self.tag.split(line)
            if own and not HIDDEN.match(own.rstrip("\n")):
                self.write(None, own, to)
            for rank, text in zip(map(int, pieces[::2]), pieces[1::2]):
                text = self.take_note(rank, begun.pop(rank, "") + text, to)
                if text.endswith("\n"):
                    self.show(rank, text, to)
                elif text:
                    begun[rank] = text
        for rank, text in begun.items():
            self.show(rank, text + "\n", to)

    def take_note(self, rank, text, to):
        """The text without the supervisor's note at its end."""
        found = NOTE.search(text)
        if found is None:
            return text
        what, said = found.groups()
        before = text[: found.start()]
        if what == "fault":
            self.lose(rank, said, to)
        elif what == "shrinking":
            self.wait_for(rank, int(said))
        elif what == "shrunk":
            self.go_on(rank, int(said), to)
        if what != "ended":
            return before
        if before:
            self.show(rank, before + "\n", to)
        with self.lock:
            self.ended[rank] = int(said)
        return ""

    def show(self, rank, line, to):
        if not HIDDEN.match(line.rstrip("\n")):
            self.write(rank, line, to)

    def lose(self, rank, why, to):
        with self.lock:
            if rank not in self.members:
                return  # the others have gone on already
            first, self.fault = self.fault is None, why
        if first:
            self.write(None, f"plait-run: {why}\n", to)

    def wait_for(self, rank, seconds):
        """A rank says that it is in shrink() for so long at most; 0: no more."""
        with self.lock:
            self.shrinking.pop(rank, None)
            if seconds:
                self.shrinking[rank] = time.monotonic() + seconds

    def go_on(self, rank, size, to):
        """A rank says that it is one of so many; when all have, they are the job."""
        with self.lock:
            self.shrinking.pop(rank, None)
            self.shrunk[rank] = self.shrunk.get(rank, 0) + 1
            latest = max(self.shrunk.values())
            members = {r for r, times in self.shrunk.items() if times == latest}
            if len(members) != size:
                return
            left = sorted(self.members - members)
            self.members, self.fault = members, None
        text = f"plait-run: {size} ranks go on without {names(left)}\n"
        self.write(None, text, to)

    def write(self, rank, text, to):
        prefix = f"[{rank}] " if self.prefix and rank is not None else ""
        with self.lock:
            to.write(prefix + text)
            to.flush()

    def failures(self):
        """Of those that make up the job, the first to fail first."""
        with self.lock:
            return {r: c for r, c in self.ended.items() if c and r in self.members}

    def latest_shrink(self):
        """When the waits of all in shrink() are over."""
        with self.lock:
            waits = [t for r, t in self.shrinking.items() if r not in self.ended]
        return max(waits, default=0.0)

    def all_ended(self):
        with self.lock:
            return self.members <= self.ended.keys()


def names(ranks):
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def version_of(mpirun):
    """The first number of its version; None when it is not Open MPI's."""
    try:
        said = subprocess.run(
            [mpirun, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\(Open ?(?:MPI|RTE)\) (\d+)", said)
    return int(found[1]) if found else None


def find_mpirun(named=None):
    """The path and version of mpirun: that of the PATH, if it is Open MPI's."""
    words = [named] if named else ["mpirun", "mpirun.openmpi"]
    found = [path for path in map(shutil.which, words) if path]
    for path in found:
        version = version_of(path)
        if version is not None:
            return path, version
    if found:
        raise SystemExit(
            f"plait-run: {found[0]} is not Open MPI's (Debian: openmpi-bin)"
        )
    raise SystemExit(
        f"plait-run: {named or 'mpirun'} was not found; Open MPI has it (Debian: "
        "openmpi-bin)"
    )


def with_libraries_of(mpirun, environment):
    """Lets ranks find its libmpi first, where the plug-in might find the system's."""
    folder = os.path.join(os.path.dirname(os.path.dirname(mpirun)), "lib")
    if os.path.exists(os.path.join(folder, "libmpi.so.40")):
        before = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else folder


def mpirun_of(options, restart, mpirun, version):
    """The command line of mpirun, and its environment."""
    environment = dict(os.environ, PLAIT_RESTART=str(restart))
    environment.setdefault("PYTHONUNBUFFERED", "1")
    for pair in options.env + options.env_worker:
        name, _, value = pair.replace(":", "=", 1).partition("=")
        environment[name] = value
    if options.heartbeat is not None:
        environment["PLAIT_HEARTBEAT"] = str(options.heartbeat)
    words = [mpirun, "-n", str(options.num_workers)]
    if version >= 5:
        words += ["--output", "tag", "--with-ft", "ulfm"]
        with_libraries_of(mpirun, environment)
    else:
        words += ["--tag-output", "--enable-recovery"]
    words += ["--bind-to", "none", "--oversubscribe"]
    if os.geteuid() == 0:
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if options.hostfile:
        words += ["--hostfile", options.hostfile]
        named = {p.replace(":", "=", 1).split("=")[0] for p in options.env_worker}
        named |= {p.replace(":", "=", 1).split("=")[0] for p in options.env}
        for name in sorted(environment):
            if name.startswith(FORWARDED) or name in named:
                words += ["-x", name]
    words += options.mpirun_args.split()
    # -I: this folder has modules that are named like the standard library's.
    words += [sys.executable, "-I", os.path.abspath(__file__), "--supervise"]
    words += [str(options.threads or 0), "0" if options.no_bind else "1"]
    words += [str(version), "--"]
    return words + command_of(options.command), environment


def stop(job):
    """Ends mpirun, and with it all ranks: their supervisors take the scripts along."""
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        if job.poll() is None:
            job.send_signal(number)
            try:
                job.wait(patience)
            except subprocess.TimeoutExpired:
                continue
    return job.wait()


def watch(job, output, options):
    """Until the job ends by itself, or its time after a failure is over: then True."""
    deadline = None
    while job.poll() is None:
        time.sleep(0.05)
        now = time.monotonic()
        if not output.failures() and not output.fault:
            deadline = None  # also when the others go on without those that failed
        elif deadline is None:
            deadline = now + options.grace
        # mpirun may wait for what a lost rank can no longer say.
        if output.all_ended():
            most = min(deadline or now + 5, now + 5)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(max(0, most - now))
            return False
        if deadline is not None and now > max(
            deadline, output.latest_shrink() + options.grace
        ):
            return True
    return False


def run_once(options, restart, mpirun, version):
    """0 when all ranks ended well, or all that went on; else a status for the shell."""
    words, environment = mpirun_of(options, restart, mpirun, version)
    output = Output(not options.no_prefix, options.num_workers, version)
    job = subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    readers = [
        threading.Thread(target=output.read, args=pair, daemon=True)
        for pair in ((job.stdout, sys.stdout), (job.stderr, sys.stderr))
    ]
    for reader in readers:
        reader.start()
    try:
        cut_off = watch(job, output, options)
        by_itself = job.poll() is not None
    finally:
        stop(job)
    # What an unreachable machine left behind may hold the pipes.
    patience = 10 if job.returncode == 0 else 1
    for reader in readers:
        reader.join(patience)
    return status_of(output, job.returncode, cut_off, by_itself)


def how_ended(code):
    if code >= 0:
        return f"status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"


def status_of(output, mpirun_status, cut_off, by_itself):
    """Of the job; says how ranks failed. `cut_off`: plait-run has ended them;
    `by_itself`: mpirun was not told to end."""

    def say(text):
        print(f"plait-run: {text}", file=sys.stderr, flush=True)

    for rank, code in sorted(output.ended.items()):
        if code != 0:
            say(f"rank {rank} ended with {how_ended(code)}")
    failures = output.failures()
    silent = sorted(output.members - output.ended.keys())
    if silent:
        say(f"ranks that did not end: {silent}")
    if mpirun_status < 0 and by_itself:
        say(f"mpirun itself ended with {how_ended(mpirun_status)}")
    inside = sorted(output.shrinking.keys() & output.members)
    if inside and (failures or silent):
        say(f"{names(inside)} ended inside of shrink(), and should have gone on")
    for code in [*failures.values(), mpirun_status]:
        if code and (failures or silent or cut_off):
            return 128 - code if code < 0 else code
    # A rank that was stopped may go on when the job is ended, and end well.
    return 1 if silent or cut_off else 0


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--supervise"]:
        threads, bind, version, _, *command = arguments[1:]
        return supervise(command, int(threads), bind == "1", int(version))
    options = parser().parse_args(arguments)
    if options.num_workers < 1:
        raise SystemExit("plait-run: -n must be at least 1")
    if options.launcher in ("sge", "yarn"):
        raise SystemExit(
            f"plait-run: --launcher {options.launcher} is not there; start "
            "plait-run (or srun) inside a job of the scheduler"
        )
    command_of(options.command)
    mpirun, version = find_mpirun(options.mpirun)
    for restart in range(options.restarts + 1):
        status = run_once(options, restart, mpirun, version)
        if status == 0:
            break
        if restart < options.restarts:
            print(
                f"plait-run: starting again ({restart + 1} of {options.restarts})",
                file=sys.stderr,
                flush=True,
            )
    return status


if __name__ == "__main__":
    sys.exit(main())
