"""A Slurm of two nodes on this machine, which lives as long as the tests that use it.

Its files, ports and processes are its own, and munge is not needed. PLAIT_TEST_SLURM
names a folder in which Debian's packages were unpacked (.venv/slurm, `tools/setup.sh
ci`); else the Slurm that is installed is used.
"""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import jobs
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 60  # seconds for the nodes to come up

# The second node's folders are not the first's, as if they were two machines.
CONFIG = """
ClusterName=plait
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
{plugins}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MessageTimeout=60
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
TCPTimeout=60
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 State=UNKNOWN
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def unpacked():
    """The root folder of Slurm's files, or None."""
    places = [os.environ.get("PLAIT_TEST_SLURM"), ROOT / ".venv/slurm", "/"]
    for place in filter(None, places):
        if daemon(pathlib.Path(place), "slurmctld"):
            return pathlib.Path(place)
    return None


def daemon(root, name):
    """Debian has each under its own name, too."""
    names = [root / "usr/sbin" / (name + end) for end in ("-wlm", "")]
    return next((str(path) for path in names if path.exists()), None)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    """n0 and n1, of four CPUs each, whatever the machine has."""

    def __init__(self, root):
        self.root = root
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plait-slurm-"))
        self.daemons = []
        plugins = next(root.glob("usr/lib/*/slurm-wlm"), None)
        self.plugins = plugins if root != pathlib.Path("/") else None
        self.env = {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
            # Two nodes here have one shared memory, in which Open MPI would give the
            # first rank of both the same name.
            "OMPI_MCA_btl": "self,tcp",
            **jobs.PATIENT,
            **jobs.allow_root(),
        }
        if self.plugins:
            paths = [str(self.plugins), os.environ.get("LD_LIBRARY_PATH", "")]
            self.env["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))

    def start(self):
        """Another program may take a port before it is used: then with other ones."""
        for _ in range(2):
            self.write_config()
            self.spawn("slurmctld", "-D", "-c", "-i")
            step = daemon(self.root, "slurmstepd")
            for node in ("n0", "n1"):
                self.spawn("slurmd", "-D", "-N", node, "-d", step)
            if self.comes_up():
                return
            self.end_daemons()
        logs = [path.read_text()[-2000:] for path in self.folder.glob("*.log")]
        errors = re.findall(r"error: (.*)", "\n".join(logs))
        pytest.skip("Slurm does not start here: " + "; ".join(errors[-3:]))

    def write_config(self):
        for name in ("state", "tmp-n0", "tmp-n1"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(
                host=socket.gethostname().split(".")[0],
                ports=free_ports(3),
                plugins=f"PluginDir={self.plugins}" if self.plugins else "",
                folder=self.folder,
            )
        )

    def spawn(self, name, *words):
        with open(self.folder / f"{name}-{len(self.daemons)}.log", "wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    [daemon(self.root, name), *words],
                    env=jobs.environment(**self.env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,
                )
            )

    def ask(self, *words):
        try:
            done = subprocess.run(
                words,
                env=jobs.environment(**self.env),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return []
        return done.stdout.split()

    def comes_up(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if any(one.poll() is not None for one in self.daemons):
                return False
            if self.ask("sinfo", "-h", "-N", "-o", "%T") == ["idle", "idle"]:
                # Some sandboxes have daemons that answer and can start nothing.
                return len(self.ask("srun", "-N2", "-n2", "hostname")) == 2
            time.sleep(0.2)
        return False

    def srun(self, *words, **env):
        """A job; its ranks' lines are marked as plait-run marks them."""
        result = jobs.run(["srun", "-l", *map(str, words)], **{**self.env, **env})
        result.text = re.sub(r"(?m)^ *(\d+): ", r"[\1] ", result.text)
        return result

    def batch(self, script, *words, **env):
        """What a script prints that runs as a job."""
        path, out = self.folder / "script.sh", self.folder / "script.out"
        path.write_text("#!/bin/bash\n" + script)
        words = ["sbatch", "--wait", "-o", out, *words, path]
        result = jobs.run([*map(str, words)], **{**self.env, **env})
        result.text += out.read_text()
        return result

    def end_daemons(self):
        for one in reversed(self.daemons):
            one.terminate()
        for one in self.daemons:
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self.daemons.clear()

    def stop(self):
        """Also of a test that has failed nothing is left."""
        deadline = time.monotonic() + PATIENCE
        while self.daemons and time.monotonic() < deadline:
            if not self.ask("squeue", "-h", "-o", "%i"):
                break
            self.ask("scancel", "-s", "KILL", "-u", "root")
            self.ask("scancel", "-u", "root")
            time.sleep(0.2)
        self.end_daemons()
        shutil.rmtree(self.folder, ignore_errors=True)
