"""The measures that several analyses share. What one means is said here and nowhere else."""

from anchorflow.config.table import AT_MOST_ALL, DIFFERENCE, SHARE, Measure

ACCURACY = Measure("accuracy", "share of predictions that are the true label", SHARE)
LABEL_LOYALTY = Measure(
    "label_loyalty", "share of predictions that are the same as in the unmodified run", SHARE
)
WORD_LOYALTY = Measure(
    "word_loyalty",
    "Jaccard similarity of the most likely next tokens with those of the unmodified run",
    SHARE,
)
RETAINED = Measure(
    "retained",
    "share of the demonstrations' effect on label probabilities that remains, 1 - Σ D(u, i) / "
    "Σ D(u, o), with D the Jensen-Shannon divergence of label probabilities and u, i and o those "
    "of the unmodified run, of the prediction, and without demonstrations",
    AT_MOST_ALL,
)
LABEL_MASS = Measure(
    "label_mass",
    "probability over the whole vocabulary that the next token is the first of a label word",
    SHARE,
    in_full=True,
)
IN_LABELS = Measure(
    "in_labels", "share of texts whose likeliest next token is the first of a label word", SHARE
)
IN_VOCABULARY = (LABEL_MASS, IN_LABELS)
CALIBRATION = (
    Measure(
        "ece",
        "expected calibration error: difference of confidence, the largest label probability, and "
        "accuracy in each of ten bins of equal width, averaged over texts; too large on few texts",
        SHARE,
    ),
    Measure(
        "ece_excess",
        "ece minus what it would be on as many texts if confidence were accuracy, the mean over "
        "100 draws of which answers are right",
        DIFFERENCE,
    ),
)


_PARTS = (
    (
        "losing_task",
        "its part from examples that lose the task, where the likeliest token was the first of a "
        "label word and no longer is",
    ),
    ("other_label", "the rest of it"),
)
# A change of accuracy and its two parts; from what, each analysis says.
ACCURACY_CHANGES, ACCURACY_GAINS = (
    (
        Measure(name, f"accuracy minus that of {other}", DIFFERENCE),
        *(Measure(f"{name}_{part}", words, DIFFERENCE, in_full=True) for part, words in _PARTS),
    )
    for name, other in (
        ("accuracy_change", "the unmodified run"),
        ("accuracy_gain", "plain in-context learning"),
    )
)
