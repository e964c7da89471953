"""The workflow on a real SLURM cluster of one node, beside a run without it."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from checkout import Checkout
from one_node_slurm import Cluster, UnavailableError, one_node_cluster

QUICK = ("--slurm-init-seconds-before-status-checks", "2")  # this cluster is not busy
SLURM = ("--profile", "profiles/slurm", *QUICK)
# All summaries are one job here, on the two cores that every runner has.
ONE_SUMMARY = ("--group-components", "presenting=50", "--cores", "2")
# With all kinds of jobs: of the model and its twin, without a model, and with an encoder.
SUMMARIES = [
    *(f"results/summaries/{name}/tiny.parquet" for name in ("flow", "compression", "kernel")),
    "results/summaries/theory/worlds.parquet",
]

# One process starts the cluster.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that the commands of all tests here find; they are skipped where there is none."""
    try:
        with one_node_cluster() as running, pytest.MonkeyPatch.context() as patch:
            for name in ("PATH", "SLURM_CONF"):
                patch.setenv(name, running.environment[name])
            yield running
    except UnavailableError as reason:
        pytest.skip(f"no SLURM cluster: {reason}")


@pytest.fixture
def checkout(copy_checkout: Callable[[], Checkout], tiny_model_directory: Path) -> Checkout:
    """One task, one seed: every kind of job, but few."""
    copy = copy_checkout()
    copy.config["models"]["tiny"]["path"] = str(tiny_model_directory)  # which tables name
    copy.config["tasks"].pop("news")
    copy.config["seeds"] = [0]
    copy.config["models"]["tiny"]["memory"] = 1500
    return copy


def test_a_cluster_makes_the_same_tables_and_repeats_a_cancelled_job(
    cluster: Cluster, checkout: Checkout, tmp_path: Path
) -> None:
    local = Checkout(tmp_path / "local", checkout.config)
    shutil.copytree(checkout.folder, local.folder)

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(checkout.snakemake, *SLURM, *ONE_SUMMARY, "--", *SUMMARIES)
        cancelled = _running_job(cluster, "rule_measure_flow", run)
        cluster.run("scancel", cancelled)
        assert "Trying to restart job" in run.result()
    assert checkout.planned(*SUMMARIES) == set()

    jobs = cluster.ended_jobs()
    states = {job["JobId"]: job["JobState"] for job in jobs}
    not_completed = {number: s for number, s in states.items() if s != "COMPLETED"}
    assert not_completed == {cancelled: "CANCELLED"}, _logs(checkout, not_completed)
    asked = {job["JobId"]: (job["TimeLimit"], job["Tres"].split(",")[1]) for job in jobs}
    assert asked.pop(cancelled) == ("37", "mem=1500M")
    assert list(asked.values()).count(("74", "mem=3000M")) == 1  # the second attempt, and no other

    local.snakemake("--cores", "2", "--", *SUMMARIES)
    tables = _tables(local)
    assert set(SUMMARIES) < set(tables)
    assert set(_tables(checkout)) == set(tables)
    for name, table in _tables(checkout).items():
        assert tables[name].read_bytes() == table.read_bytes(), name


def test_gpu_jobs_ask_for_one_gpu_each_and_wait_only_for_slurm(
    cluster: Cluster, copy_checkout: Callable[[], Checkout]
) -> None:
    checkout = copy_checkout()
    checkout.config["compute"] = {"device": "cuda"}
    texts, targets = (
        [f"results/{stage}/{task}.parquet" for task in ("reviews", "news")]
        for stage in ("texts", "embeddings")
    )
    checkout.snakemake("--cores", "2", "--", *texts)
    before = len(cluster.ended_jobs())
    # The node's GPU may be one in name only; the jobs then end where torch looks for it.
    arguments = (*SLURM, "--retries", "0", "--", *targets)
    checkout.snakemake(*arguments, ok=torch.cuda.is_available())
    first, second = [job for job in cluster.ended_jobs()[before:] if job["Partition"] == "gpu"]
    assert second["SubmitTime"] < first["EndTime"]
    for job in (first, second):
        assert "gpu:1" in cluster.run("scontrol", "show", "job", job["JobId"])


def test_the_generic_profile_s_scripts_tell_failed_jobs_from_finished_ones(
    cluster: Cluster, checkout: Checkout
) -> None:
    fails_once = (
        "import os\n\nif not os.path.exists('tried'):\n    os.mkdir('tried')\n"
        "    raise SystemExit(1)\n"
    )
    checkout.edit(
        "workflow/scripts/prepare.py",
        "from anchorflow.config.registry",
        f"{fails_once}from anchorflow.config.registry",
    )
    target = "results/texts/reviews.parquet"
    arguments = ("--profile", "profiles/cluster-generic", "--latency-wait", "10", "--", target)
    assert "Trying to restart job" in checkout.snakemake(*arguments)
    first, second = cluster.ended_jobs()[-2:]
    assert (first["JobState"], first["TimeLimit"]) == ("FAILED", "30")
    assert (second["JobState"], second["TimeLimit"]) == ("COMPLETED", "60")


def _tables(checkout: Checkout) -> dict[str, Path]:
    """Every Parquet file of a run, by its path in the checkout."""
    paths = checkout.folder.glob("results/**/*.parquet")
    return {str(path.relative_to(checkout.folder)): path for path in paths}


def _logs(checkout: Checkout, numbers: Iterable[str]) -> str:
    """What the jobs of these numbers wrote."""
    folder = checkout.folder / ".snakemake" / "slurm_logs"
    logs = [log for number in numbers for log in folder.glob(f"**/{number}.log")]
    return "\n".join(log.read_text(encoding="utf-8")[-3000:] for log in logs)


def _running_job(cluster: Cluster, comment: str, run: Future) -> str:
    """The number of a running job whose comment, made by the plugin of its rule, begins so."""
    while not run.done():
        listed = cluster.run("squeue", "--noheader", "--states=running", "--format=%i|%k")
        for line in listed.splitlines():
            number, _, told = line.partition("|")
            if told.startswith(comment):
                return number
        time.sleep(0.3)
    pytest.fail(f"no such job was seen running: {comment}; {run.result()[-4000:]}")
