"""Two machines made of network namespaces, with a link of limited speed between."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from jobs import run


def sh(*words):
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=30)


class Machines:
    """Namespaces a and b, 10.77.0.1 and 10.77.0.2; removed by close()."""

    def __init__(self, folder, rate=None):
        tag = f"plait{os.getpid()}"
        self.names = [f"{tag}a", f"{tag}b"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.folder = pathlib.Path(folder)
        try:
            self._make(rate)
        except BaseException:
            self.close()
            raise

    def _make(self, rate):
        for name in self.names:
            sh("ip", "netns", "add", name)
        a, b = self.names
        link = ["ip", "-n", a, "link", "add", "v0", "type", "veth"]
        sh(*link, "peer", "name", "v0", "netns", b)
        for name, address in zip(self.names, self.addresses):
            sh("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "v0")
            sh("ip", "-n", name, "link", "set", "v0", "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
            if rate:
                sh(*f"tc -n {name} qdisc add dev v0 root tbf rate {rate}".split(),
                   *"burst 256kb latency 50ms".split())  # fmt: skip
        # Each has a name of its own, or Open MPI takes them for one machine.
        self.agent = self.folder / "agent"
        self.agent.write_text(
            "#!/bin/sh\n"
            "host=$1; shift; case $host in *.1) n=a;; *) n=b;; esac\n"
            f"exec ip netns exec {self.names[0][:-1]}$n unshare --uts "
            'sh -c "hostname plait-$n; $*"\n'
        )
        self.agent.chmod(0o755)
        self.hostfile = self.folder / "hosts"
        self.hostfile.write_text("".join(f"{a} slots=1\n" for a in self.addresses))

    def cut(self):
        """Takes the link away: nothing comes through, and nobody is told."""
        sh("ip", "-n", self.names[0], "link", "set", "v0", "down")

    def bytes_sent(self):
        """By each of the two, over the link, with all headers."""
        return [
            int(
                subprocess.run(
                    [
                        "ip",
                        "netns",
                        "exec",
                        name,
                        "cat",
                        "/sys/class/net/v0/statistics/tx_bytes",
                    ],  # fmt: skip
                    check=True,
                    capture_output=True,
                    timeout=30,
                ).stdout
            )
            for name in self.names
        ]

    def plait_run(self, *command, options=(), timeout=100, **env):
        """One rank on each machine."""
        mca = f"--mca btl self,tcp --mca plm_rsh_agent {self.agent}"
        mca += " --mca oob_tcp_if_include v0 --mca btl_tcp_if_include v0"
        words = ["ip", "netns", "exec", self.names[0], sys.executable, "-m"]
        words += ["plait.run", "-n", "2", "--hostfile", str(self.hostfile)]
        words += [f"--mpirun-args={mca} --map-by node", *options]
        return run([*words, *map(str, command)], timeout, **env)

    def close(self):
        """Also ends what still runs there."""
        for name in self.names:
            left = subprocess.run(
                ["ip", "netns", "pids", name],
                capture_output=True,
                text=True,
                timeout=30,
            )
            for pid in left.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(
                ["ip", "netns", "del", name], capture_output=True, timeout=30
            )


def reason_against():
    """Why namespaces cannot be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            return f"network namespaces need the program {tool}"
    name = f"plaittry{os.getpid()}"
    for words in (["ip", "netns", "add", name], ["ip", "netns", "del", name]):
        tried = subprocess.run(words, capture_output=True, text=True, timeout=30)
        if tried.returncode != 0:
            return "network namespaces are not permitted: " + tried.stderr.strip()
    return None


@pytest.fixture
def machines(tmp_path):
    reason = reason_against()
    if reason:
        pytest.skip(reason)
    made = Machines(tmp_path)
    yield made
    made.close()
