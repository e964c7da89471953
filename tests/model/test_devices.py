"""Jobs beside one another compute on different GPUs; told by processes that hold made-up ones."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from anchorflow.model.devices import Rates, choose_device, claim_device, named_devices


def hold(folder: Path, devices: list[str], told: Connection) -> None:
    told.send(claim_device(devices, folder))
    told.recv()


@contextmanager
def holders(folder: Path, devices: list[str], count: int) -> Iterator[tuple[list, list[str]]]:
    """Processes that claim a device each, and these devices, held until the block ends."""
    fork = get_context("fork")
    ends = [fork.Pipe() for _ in range(count)]
    processes = [fork.Process(target=hold, args=(folder, devices, told)) for _, told in ends]
    for process in processes:
        process.start()
    try:
        yield processes, [asked.recv() for asked, _ in ends if asked.poll(60)]
    finally:
        for process in processes:
            process.kill()
            process.join()


@pytest.mark.parametrize(
    ("devices", "count", "held"), [("012", 3, "012"), ("01", 4, "0011"), ("0", 2, "00")]
)
def test_processes_that_start_together_share_devices_evenly(
    tmp_path: Path, devices: str, count: int, held: str
) -> None:
    with holders(tmp_path, list(devices), count) as (_, claimed):
        assert "".join(sorted(claimed)) == held


def test_the_device_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    devices = ["GPU-a/0", "GPU-b"]
    with holders(tmp_path, devices, 2) as (processes, held):
        assert set(held) == set(devices)
        processes[0].kill()
        processes[0].join()
        with holders(tmp_path, devices, 1) as (_, freed):
            assert freed == held[:1]
        assert (tmp_path / f"{freed[0].replace('/', '_')}.0").exists()  # not shared with the second
        assert not list(tmp_path.glob("*.1"))


@pytest.mark.parametrize(
    ("visible", "gpus", "expected"),
    [
        (None, 2, ["0", "1"]),
        ("3,1", 2, ["3", "1"]),
        ("GPU-a, GPU-b", 2, ["GPU-a", "GPU-b"]),
        ("2,0,-1,3", 2, ["2", "0"]),  # CUDA ignores what follows a number that is none
    ],
)
def test_devices_are_named_as_in_the_environment(
    visible: str | None, gpus: int, expected: list[str]
) -> None:
    assert named_devices(visible, gpus) == expected


def test_the_cpu_claims_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert choose_device("cpu").type == "cpu"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_rates_are_measured_on_the_machine_at_hand() -> None:
    rates = Rates.measured(64, torch.float32, torch.device("cpu"))
    assert 1e8 < rates.bytes < 1e13
    assert rates.bytes / 4 < rates.operations < 1e15
