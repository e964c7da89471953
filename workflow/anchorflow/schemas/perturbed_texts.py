"""Table of perturbed_texts: one per (perturbation, test text)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PERTURBED_TEXTS = f.table(
    "perturbed_texts",
    "one per (perturbation, test text)",
    f.TASK,
    f.SEED,
    f.PERTURBATION,
    f.EXAMPLE,
    f.field("text", pa.string(), "the perturbed text; several fields joined as in the table texts"),
    f.field("words", pa.int32(), "its words, separated by blanks", "words"),
    f.field(
        "changed", pa.int32(), "how many of them are not what the text has in their place", "words"
    ),
    keys="task seed perturbation example",
)
