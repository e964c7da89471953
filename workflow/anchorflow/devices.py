"""Where torch computes."""

import torch

from anchorflow.errors import InputError


def choose_device(wish: str) -> torch.device:
    """The device for ``compute.device``; raises InputError if a GPU is asked for and missing."""
    if wish == "cpu" or (wish == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(
            f'compute.device: "{wish}" needs a CUDA GPU and torch sees none; '
            'set "auto" or "cpu", or install a CUDA build of torch.'
        )
    return torch.device("cuda")
