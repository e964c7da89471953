"""What stays open in a process after a job, so that the next one need not open it again.

Tokenizers, which the server of forks opens, since reading the words and merges of one takes longer
than many a job does. And the weights of a model on a GPU, in a fork that goes on with further jobs.
This is the one module of the package that neither of them forgets.
"""

import os
import resource
import time
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from anchorflow.config.import_path import KEEP

TOKENIZER = "tokenizer.json"
MOST = 4  # tokenizers at a time; each takes about 0.3 GB where words are many

_State = tuple[str, int, int, int]
_opened: dict[_State, Any] = {}


class _Model(NamedTuple):
    """A model that no job has changed."""

    model: Any
    changes: int  # when it was opened


class Usage(NamedTuple):
    """What a process has used at some time."""

    seconds: float  # of a clock that starts anywhere
    processor_seconds: float

    @classmethod
    def now(cls) -> "Usage":
        """What this process has used."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(time.monotonic(), used.ru_utime + used.ru_stime)


_models: dict[tuple[_State, str], _Model] = {}
before: Usage | None = None  # this process's job, if it has done another one
devices: dict[str, Any] = {}  # that this process computes on, by what the configuration wishes
claims: list[TextIO] = []  # locks on them last while these files are open: until the process ends


def open_once(path: Path) -> None:
    """Open a tokenizer, unless it is open as it is now; the oldest one makes room.

    Raises
    ------
    Exception
        What the library raises if it can't be read.
    """
    from tokenizers import Tokenizer

    state = _state(path)
    if state not in _opened:
        if len(_opened) >= MOST:
            del _opened[next(iter(_opened))]
        _opened[state] = Tokenizer.from_file(str(path))


def opened(path: Path) -> Any:
    """The open tokenizer of a file, None if there is none or the file is not what it was."""
    return _opened.get(_state(path))


def stays_open(wish: str, on: str | None = None) -> bool:
    """Whether a model may stay open: on a GPU, of which every other process would need a copy.

    Parameters
    ----------
    wish : str
        ``compute.device``.
    on : str, optional
        The kind of device that this is, if that is known.
    """
    return (wish != "cpu" and on != "cpu") or KEEP in os.environ


def keep_model(card: Path, device: str, model: Any) -> None:
    """Keep a model open for the further jobs of this process.

    Parameters
    ----------
    card : path
        The file that describes the model, by which it is known.
    device : str
        ``compute.device``.
    model : Module
        Its weights must stay as they are: who computes takes a copy of the modules.
    """
    state = _state(card)
    for key in [key for key in _models if (key[0][0], key[1]) == (state[0], device)]:
        del _models[key]  # of a card that has been replaced
    _models[state, device] = _Model(model, _changes(model))


def kept_model(card: Path, device: str) -> Any:
    """The model that an earlier job of this process has opened from this; None if there is none.

    All are given up if one is not what it was.
    """
    if not keeps_models():
        _models.clear()
    kept = _models.get((_state(card), device))
    return kept.model if kept else None


def keeps_models() -> bool:
    """Whether models are open, all with the weights with which they were opened."""
    return bool(_models) and all(_changes(kept.model) == kept.changes for kept in _models.values())


def give_up_models(besides: Any = None) -> bool:
    """Give up all models but this one; whether there were others."""
    others = [key for key, kept in _models.items() if kept.model is not besides]
    for key in others:
        del _models[key]
    return bool(others)


def _changes(model: Any) -> int:
    """How often parameters have been written to, which torch counts."""
    return sum(each._version for each in model.parameters())


def _state(path: Path) -> _State:
    """What changes when a file does."""
    found = path.stat()
    return str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns
