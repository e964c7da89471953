"""Table of perturbed_texts: one per (perturbation, test text)."""

import pyarrow as pa

from anchorflow.schemas.fields import EXAMPLE, PERTURBATION, SEED, TASK, field, table

PERTURBED_TEXTS = table(
    "perturbed_texts",
    "one per (perturbation, test text)",
    TASK,
    SEED,
    PERTURBATION,
    EXAMPLE,
    field("text", pa.string(), "the perturbed text; several fields joined as in the table texts"),
    field("words", pa.int32(), "its words, separated by blanks", "words"),
    field(
        "changed", pa.int32(), "how many of them are not what the text has in their place", "words"
    ),
    keys="task seed perturbation example",
)
