"""The device that torch computes on, how fast it is, and reproducible results on it."""

import logging
import os
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple, TextIO

import torch
from torch.nn.functional import linear

from anchorflow.config.errors import InputError

log = logging.getLogger(__name__)

_reserved: list[TextIO] = []  # GPUs stay claimed while these files are open: until the process ends


def choose_device(wish: str) -> torch.device:
    """The device for ``compute.device``; raises InputError if a GPU is requested but missing.

    On a GPU, torch uses deterministic algorithms, so that equal inputs give the same bits, as on a
    CPU. Of several GPUs, this process sees only one from here on, and processes use different ones
    as far as there are enough; with "spread", it sees all.
    """
    if wish in ("auto", "cuda"):
        _see_one_gpu()
    if wish == "cpu" or (wish == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(
            f'compute.device: "{wish}" needs a CUDA GPU and torch sees none; '
            'set "auto" or "cpu", or install a CUDA build of torch.'
        )
    # Otherwise, the order of summation on a GPU may differ each time. cuBLAS reads its setting when
    # it is first used. Where torch has no deterministic algorithm, it warns in the job's log.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device("cuda")


def _see_one_gpu() -> None:
    """Set CUDA_VISIBLE_DEVICES to one GPU, which has an effect only before CUDA is initialized."""
    gpus = torch.cuda.device_count()  # queries the driver's library without initializing CUDA
    if gpus < 2:
        return
    devices = named_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), gpus)
    folder = Path(tempfile.gettempdir()) / f"anchorflow-gpus-{os.getuid()}"
    device = claim_device(devices, folder)
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    if torch.cuda.device_count() > 1:  # CUDA was initialized by counting, and sees all of them
        torch.cuda.set_device(devices.index(device))
    log.info("Computing on GPU %s of %s.", device, ", ".join(devices))


def named_devices(visible: str | None, gpus: int) -> list[str]:
    """Names of the GPUs as CUDA_VISIBLE_DEVICES lists them, or their numbers if it is not set."""
    if visible is None:
        return [str(number) for number in range(gpus)]
    return [name.strip() for name in visible.split(",")][:gpus]


def claim_device(devices: Sequence[str], folder: Path) -> str:
    """Claim the device that the fewest processes hold, until this process ends in any way.

    Every device has a series of files in ``folder``, one per process that may hold it; the first
    file whose lock is free is taken. The system releases the locks of a killed process.
    """
    import fcntl  # which Windows lacks

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f"{folder}: GPUs are assigned by files there, which can't be written; remove it, or "
            "set TMPDIR to a folder of your own."
        )
    for holders in count():
        for device in devices:
            path = folder / f"{device.replace('/', '_')}.{holders}"
            file = open(path, "w", encoding="utf-8")  # noqa: SIM115
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _reserved.append(file)
            return device
    raise AssertionError("count() does not end")


class Rates(NamedTuple):
    """A machine's rates per second."""

    operations: float  # of floating-point numbers, in a product with many tokens
    bytes: float  # of weights, read for a product with few tokens

    @classmethod
    @torch.no_grad()
    def measured(cls, hidden: int, dtype: torch.dtype, device: torch.device) -> "Rates":
        """Measure this machine, in 0.3 seconds, with a matrix that is too large for any cache."""
        large = torch.ones(2**24 // hidden, hidden, dtype=dtype, device=device)
        took = []
        for tokens in (8, 256):  # few, so that reading the matrix dominates; many, for arithmetic
            given, times = torch.ones(tokens, hidden, dtype=dtype, device=device), []
            for _ in range(4):
                start = _now(device)
                linear(given, large)
                times.append(_now(device) - start)
            took.append(sorted(times[1:])[1])  # the median of three, after a warm-up
        return cls(2 * 256 * large.numel() / took[1], large.nbytes / took[0])


def _now(device: torch.device) -> float:
    if device.type == "cpu":  # process time, since other processes may share the CPU
        return time.process_time() / torch.get_num_threads()
    torch.cuda.synchronize()
    return time.perf_counter()
