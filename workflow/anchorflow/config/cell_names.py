"""Names of cells with other label words, and of models without training, in paths and tables.

``reviews+symbols`` is ``reviews`` with ``symbols``, ``reviews+shuffled`` is ``reviews`` with the
labels of its demonstrations shuffled, and ``gpt2+shuffled-0`` is the first draw of ``gpt2`` with
its weights shuffled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Words = Mapping[str, Mapping[str, Sequence[str]]]  # label words by task and by their name
OWN = "words"  # the name of a task's own label words in tables
SHUFFLED = "shuffled"  # a task's own label words, its demonstrations' labels exchanged
UNTRAINED = ("initialized", "shuffled")  # kinds of twins
_JOINT = "+"  # no task's or model's name may contain it


def cell_name(task: str, words: str) -> str:
    """A task's name in paths with these label words; with its own, just the task's name."""
    return task if words == OWN else f"{task}{_JOINT}{words}"


def task_of(cell: str) -> str:
    """The task whose texts, demonstrations and template a cell uses."""
    return cell.partition(_JOINT)[0]


def words_of(cell: str) -> str | None:
    """The name of a cell's label words; None for the task's own."""
    return cell.partition(_JOINT)[2] or None


def with_same_words(cell: str, tasks: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The cell of the first other task with the label words of ``cell``, in any order.

    They are its own, or among its ``label_words``. None if there is none, or the words are drawn.
    """
    sets = {name: {OWN: of["labels"], **of.get("label_words", {})} for name, of in tasks.items()}
    own = sets[task_of(cell)].get(words_of(cell) or OWN)
    if own is None:
        return None
    for name, named in sets.items():
        for words, labels in named.items():
            if name != task_of(cell) and sorted(labels) == sorted(own):
                return cell_name(name, words)
    return None


def labels_key(cell: str) -> str:
    """The configuration key of a cell's label words, for error sentences."""
    words = words_of(cell)
    other = words is not None and words != SHUFFLED
    return f"tasks.{task_of(cell)}." + (f"label_words.{words}" if other else "labels")


def twin_name(model: str, kind: str, draw: int) -> str:
    """The name of a model's untrained twin, such as ``gpt2+initialized-0``."""
    return f"{model}{_JOINT}{kind}-{draw}"


def base_of(model: str) -> str:
    """The model of which a twin is made; any other model's name is returned as it is."""
    return model.partition(_JOINT)[0]


def is_untrained(model: str) -> bool:
    """Whether a model's name is that of an untrained twin."""
    return _JOINT in model
