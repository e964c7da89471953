"""Names of cells with other label words: ``reviews+symbols`` is ``reviews`` with ``symbols``."""

from collections.abc import Mapping, Sequence

Words = Mapping[str, Mapping[str, Sequence[str]]]  # label words by task and by their name
OWN = "words"  # the name of a task's own label words in tables
_JOINT = "+"  # no task's name may contain it


def cell_name(task: str, words: str) -> str:
    """A task's name in paths with these label words; with its own, just the task's name."""
    return task if words == OWN else f"{task}{_JOINT}{words}"


def task_of(cell: str) -> str:
    """The task whose texts, demonstrations and template a cell uses."""
    return cell.partition(_JOINT)[0]


def words_of(cell: str) -> str | None:
    """The name of a cell's label words; None for the task's own."""
    return cell.partition(_JOINT)[2] or None


def labels_key(cell: str) -> str:
    """The configuration key of a cell's label words, for error sentences."""
    words = words_of(cell)
    return f"tasks.{task_of(cell)}." + (f"label_words.{words}" if words else "labels")
