"""What a task's texts are, in sentences: how many, their extremes, and what may mislead."""

from collections.abc import Sequence

import polars as pl

from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.prepare.samples import distinct, repeated_texts, with_invisible
from anchorflow.schemas.texts import SPLITS

_EXCERPT = 60  # characters of a text
_NAMES = {"train": "training text", "test": "test text"}  # of a split's texts


def described_texts(texts: pl.DataFrame, labels: Sequence[str]) -> list[str]:
    """Rows per split and label, the shortest and the longest text, and one text of each label.

    ``texts`` are those of one task; label words are in label order.
    """
    by_length = texts.sort(pl.col("text").str.len_chars(), maintain_order=True)["text"]
    lines = []
    for split in SPLITS:
        of_split = texts.filter(split=split)
        listed = of_labels(of_split, labels)
        lines.append(f"{_number(len(of_split), _NAMES[split])} ({listed})")
    lines += [f"shortest text: {excerpt(by_length[0])}", f"longest text: {excerpt(by_length[-1])}"]
    for label, word in enumerate(labels):
        of_label = texts.filter(label=label)["text"]
        if len(of_label):
            lines.append(f"the first text of {word.strip()}: {excerpt(of_label[0])}")
    return lines


def remarks(
    texts: pl.DataFrame, labels: Sequence[str], seeds: int, wanted: int, per_label: int
) -> list[str]:
    """What could mislead a reader of numbers on these texts, one sentence each.

    ``wanted`` and ``per_label`` are ``test_examples`` and ``demonstrations_per_label`` of the
    configuration.
    """
    splits = {split: texts.filter(split=split) for split in SPLITS}
    train, test = (distinct(texts, split) for split in SPLITS)
    found = repeated_texts(splits)
    said = []
    if overlap := int(found.overlap.sum()):
        said.append(
            f"{_number(overlap, 'training text')} of {len(splits['train'])} "
            f"{'is' if overlap == 1 else 'are'} among the test texts, as "
            f"{_first(splits['train'], found.overlap)}; no test text is among its own "
            'demonstrations, and "repeated: drop" leaves them out'
        )
    for split, frame in splits.items():
        kept = frame.filter(~found.copies[split])
        if len(kept) < len(frame):
            said.append(
                f"the {_number(len(frame), _NAMES[split])} are {len(kept)} distinct ones, which "
                f"are drawn once; {_first(frame, found.copies[split])} repeats"
            )
        if two := int(found.two_labels[split].sum()):
            said.append(
                f"{_number(two, _NAMES[split])} stand there with two labels, as "
                f"{_first(frame, found.two_labels[split])}; one of them counts in a draw, and "
                '"repeated: drop" leaves them out'
            )
        marked = with_invisible(frame["text"])
        if marked.any():
            said.append(
                f"{_number(int(marked.sum()), _NAMES[split])} with invisible characters or white "
                f'space around them, as {_first(frame, marked)}; "invisible: strip" removes these'
            )
    for label, word in enumerate(labels):
        available = len(train.filter(label=label))
        if available == per_label and seeds > 1:
            said.append(
                f"{word.strip()} has {_number(available, 'training text')}, so every seed has the "
                "same demonstrations of it"
            )
    if test["label"].n_unique() == 1:
        said.append(f"all test texts have the label {labels[test['label'][0]].strip()}")
    if len(test) < wanted:
        said.append(
            f"{wanted} test texts are asked for (test_examples), but there are {len(test)}, so "
            "every seed takes all"
        )
    return said


def distinct_draws(samples: pl.DataFrame) -> str:
    """How many test texts all seeds of one task have, and how many of them are distinct."""
    queries = samples.filter(demonstrations="fixed")
    seeds, texts = queries["seed"].n_unique(), queries["example"].n_unique()
    which = "all distinct" if texts == len(queries) else f"{texts} of them distinct"
    return f"{_number(len(queries), 'test text')} in {_number(seeds, 'seed')}, {which}"


def of_labels(texts: pl.DataFrame, labels: Sequence[str]) -> str:
    """The number of texts of each label, as ``Negative 30, Positive 30``."""
    counts = dict(texts["label"].value_counts().iter_rows())
    return ", ".join(f"{word.strip()} {counts.get(n, 0)}" for n, word in enumerate(labels))


def excerpt(text: str) -> str:
    """The beginning of a text in quotes, with what is not seen in it escaped."""
    shown = text.replace(FIELD_SEPARATOR, " | ")
    return repr(shown if len(shown) <= _EXCERPT else f"{shown[:_EXCERPT]}…")


def _first(texts: pl.DataFrame, which: pl.Series) -> str:
    return excerpt(texts["text"][which.arg_true()[0]])


def _number(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)
