"""A SLURM cluster of this one machine, for as long as it is needed: no systemd, no database.

By hand, to try a profile, with the command after it that is to run on the cluster:
python tests/whole_run/cluster/one_node_slurm.py snakemake --profile profiles/slurm
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")
PACKAGES = "munge, slurmctld, slurmd, slurm-client"

# Loopback only, no cgroups, no accounting; job memory is watched by polling. The node has a GPU in
# name, which takes a file, so that jobs can ask for it.
SLURM_CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/ended_jobs.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
KillWait=2
ReturnToService=2
DefMemPerCPU=500
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} \
ThreadsPerCore=1 RealMemory={memory} Gres=gpu:1
PartitionName=cpu Nodes={host} Default=YES MaxTime=2880 State=UP
PartitionName=gpu Nodes={host} MaxTime=2880 State=UP
"""


class UnavailableError(Exception):
    """Why there can't be a cluster here."""


@dataclass
class Cluster:
    """A running cluster; ``environment`` makes its commands find it."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """What one of SLURM's commands prints."""
        return subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def ended_jobs(self) -> list[dict[str, str]]:
        """What SLURM notes of every job that has ended, such as its JobState."""
        lines = (self.folder / "ended_jobs.txt").read_text(encoding="utf-8").splitlines()
        return [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]


@contextlib.contextmanager
def one_node_cluster() -> Iterator[Cluster]:
    """Run a cluster on the loopback interface in a folder of its own; nothing of it remains."""
    missing = [name for name in (*DAEMONS, *COMMANDS) if _program(name) is None]
    if missing:
        raise UnavailableError(f"no {', '.join(missing)}; Debian's packages are {PACKAGES}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        cluster = Cluster(folder, _environment(folder))
        _configure(folder)
        daemons: list[subprocess.Popen] = []
        stack.callback(_stop, daemons, cluster)
        munge = ["--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
        munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "seed", "log")]
        for name, arguments in (
            ("munged", ["--foreground", *munge]),
            ("slurmctld", ["-D", "-c"]),
            ("slurmd", ["-D", "-c"]),
        ):
            output = stack.enter_context(open(folder / f"{name}.out", "w", encoding="utf-8"))
            daemons.append(
                subprocess.Popen(
                    [str(_program(name)), *arguments],
                    env=cluster.environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C ends them in order, by `_stop`
                )
            )
        _wait_until_idle(cluster, daemons)
        yield cluster


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _environment(folder: Path) -> dict[str, str]:
    """The cluster's configuration, and an srun that finds it inside of jobs too.

    The executor plugin takes all of SLURM's variables away from the srun inside a job.
    """
    wrapper = folder / "bin" / "srun"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nexport SLURM_CONF={folder}/slurm.conf\nexec {_program("srun")} "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SLURM_CONF": f"{folder}/slurm.conf"}


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n", encoding="utf-8")
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    text = SLURM_CONF.format(
        folder=folder,
        host=socket.gethostname().split(".")[0],
        user=getpass.getuser(),
        cores=os.cpu_count(),
        memory=megabytes * 8 // 10,
        controller_port=_free_port(),
        node_port=_free_port(),
    )
    (folder / "slurm.conf").write_text(text, encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_idle(cluster: Cluster, daemons: list[subprocess.Popen]) -> None:
    state = "no answer"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and all(daemon.poll() is None for daemon in daemons):
        with contextlib.suppress(subprocess.SubprocessError):
            state = cluster.run("sinfo", "--noheader", "--partition=cpu", "--format=%T")
        if state == "idle":
            return
        time.sleep(0.3)
    logs = [(cluster.folder / f"{name}.out").read_text(encoding="utf-8") for name in DAEMONS]
    raise UnavailableError(f"its node does not come up ({state}): {[log[-500:] for log in logs]}")


def _stop(daemons: list[subprocess.Popen], cluster: Cluster) -> None:
    """Cancel what still runs, then end the daemons, last started first."""
    with contextlib.suppress(subprocess.SubprocessError):
        cluster.run("scancel", f"--user={getpass.getuser()}")
        for _ in range(20):
            if not cluster.run("squeue", "--noheader"):
                break
            time.sleep(0.5)
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(timeout=15)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


if __name__ == "__main__":
    with one_node_cluster() as running:
        sys.exit(subprocess.run(sys.argv[1:], env=running.environment).returncode)
