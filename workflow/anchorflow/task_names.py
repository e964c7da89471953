"""Names of cells with other label words: ``reviews+symbols`` is the task ``reviews`` with those."""

from collections.abc import Mapping, Sequence

Words = Mapping[str, Mapping[str, Sequence[str]]]  # label words by task and by their name
OWN = "words"  # what tables call a task's own label words
_JOINT = "+"  # no task's name may contain it


def cell_name(task: str, words: str) -> str:
    """The name in paths of a task with label words of this name; of its own, the task's name."""
    return task if words == OWN else f"{task}{_JOINT}{words}"


def task_of(cell: str) -> str:
    """The task whose texts, demonstrations and template a cell has."""
    return cell.partition(_JOINT)[0]


def words_of(cell: str) -> str | None:
    """The name of a cell's label words; None for the task's own."""
    return cell.partition(_JOINT)[2] or None


def labels_key(cell: str) -> str:
    """Where a cell's label words stand in the configuration, for error sentences."""
    words = words_of(cell)
    return f"tasks.{task_of(cell)}." + (f"label_words.{words}" if words else "labels")
