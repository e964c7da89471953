"""Where torch computes, and that it computes the same there each time."""

import os

import torch

from anchorflow.errors import InputError


def choose_device(wish: str) -> torch.device:
    """The device for ``compute.device``; raises InputError if a GPU is asked for and missing.

    On a GPU, torch is told to take algorithms whose results repeat.
    """
    if wish == "cpu" or (wish == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(
            f'compute.device: "{wish}" needs a CUDA GPU and torch sees none; '
            'set "auto" or "cpu", or install a CUDA build of torch.'
        )
    _repeat_on_gpu()
    return torch.device("cuda")


def _repeat_on_gpu() -> None:
    """Let equal inputs give equal bits on one GPU, as they do on a CPU.

    Sums on a GPU may otherwise be taken in another order each time. cuBLAS reads its setting when
    it is first used. Where torch has no such algorithm it warns in the job's log and goes on.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
