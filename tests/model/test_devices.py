"""Jobs beside one another compute on different GPUs; told by processes that hold made-up ones."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from anchorflow.model.devices import Rates, choose_device, named_devices

HOLD = """
import sys
from pathlib import Path
from anchorflow.model.devices import claim_device
print(claim_device(sys.argv[2:], Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that claims one of the devices and holds it until it is told to end."""

    def __init__(self, folder: Path, devices: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def device(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self, killed: bool = False) -> None:
        if killed:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_processes_that_start_together_hold_different_devices(tmp_path: Path) -> None:
    holders = [Holder(tmp_path, ["0", "1", "2"]) for _ in range(3)]
    try:
        assert sorted(holder.device() for holder in holders) == ["0", "1", "2"]
    finally:
        for holder in holders:
            holder.end()


def test_the_device_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    first, second = Holder(tmp_path, ["GPU-a/0", "GPU-b"]), Holder(tmp_path, ["GPU-a/0", "GPU-b"])
    try:
        held = {first.device(), second.device()}
        assert held == {"GPU-a/0", "GPU-b"}
        first.end(killed=True)
        third = Holder(tmp_path, ["GPU-a/0", "GPU-b"])
        freed = third.device()
        third.end()
        assert freed in held
        assert (tmp_path / f"{freed.replace('/', '_')}.0").exists()  # not shared with second
        assert not list(tmp_path.glob("*.1"))
    finally:
        second.end()


def test_more_processes_than_devices_share_them_evenly(tmp_path: Path) -> None:
    holders = [Holder(tmp_path, ["0", "1"]) for _ in range(4)]
    try:
        assert sorted(holder.device() for holder in holders) == ["0", "0", "1", "1"]
    finally:
        for holder in holders:
            holder.end()


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
