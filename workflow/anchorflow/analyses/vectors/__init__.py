"""Whether a task is in one vector: task, function, and local vectors, and how much they recover."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary, Tabulated
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

ALL = NO_LAYER = -1  # of the columns number and layer

VECTOR = Column(
    "vector",
    "string",
    "task: the target's mean residual stream replaces that of a prompt without demonstrations "
    "(Hendel et al. 2023); function: what the heads with the greatest effects write at the "
    "target, on average, is added to it (Todd et al. 2024); local: label words' residual stream "
    "replaces that of a prompt whose demonstrations' texts are random tokens (Zheng et al. 2024); "
    "none: a prompt as it is",
)
SOURCE = Column(
    "source",
    "string",
    "the prompts that the vector is from; own: those of the task; deranged: the same with a label "
    "word of another class in every demonstration; other_task: those of another task; without: "
    "those without demonstrations; random: none, a random vector of the same length as own; none: "
    "no vector, for local: the random texts alone",
)
NUMBER = Column(
    "number", "int32", "demonstrations in the prompt, the last ones; -1: all", "demonstrations"
)

VECTORS = table(
    "vectors",
    "one per (example, vector, source, number, layer), demonstrations fixed; labels whose words "
    "begin with the same token are one",
    *f.CELL,
    f.EXAMPLE,
    VECTOR,
    SOURCE,
    NUMBER,
    Column("layer", "int32", "transformer layer behind which the vector is put; -1 for none"),
    Column(
        "chosen",
        "bool",
        "whether the true label is most probable with this layer on the other half of the texts; "
        "false without a vector",
    ),
    f.LABEL,
    *f.PREDICTED,
    keys="model task seed example vector source number layer",
)

SIMILARITY = table(
    "vector_similarity",
    "one per (layer, demonstration): cosines of local vectors, each the residual stream at a label "
    "word's last token minus that with random tokens in place of the demonstrations' texts",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.DEMONSTRATION,
    Column("similarity", "float32", "mean cosine with the other demonstrations' local vectors"),
    Column("similarity_control", "float32", "the same for two draws of random tokens"),
    Column(
        "to_task",
        "float32",
        "cosine with the task vector minus the mean state at the target without demonstrations",
    ),
    Column("to_task_control", "float32", "the same for two draws of random tokens"),
    keys="model task seed layer demonstration",
)

_OF_WHOLE = (
    "(v - u) / (o - u), with v of the vector, u without it, in the same prompt (without "
    "demonstrations or, for local, with random texts), and o with all demonstrations, "
    "over all texts; undefined in tasks where the interval of o - u reaches 0"
)
COSINES = ("similarity", "to_task")
VECTORS_SUMMARY = summary_of(
    "vectors",
    (
        VECTOR,
        SOURCE,
        NUMBER,
        Column(
            "layer",
            "int32",
            "as in the table vectors; for vectors, -1: the layer chosen on other texts",
        ),
    ),
    (
        m.ACCURACY,
        Measure("probability", "probability of the true label among label words", SHARE),
        Measure("recovery", f"share of what demonstrations add to accuracy: {_OF_WHOLE}"),
        Measure(
            "recovered_probability", "the same of what they add to the true label's probability"
        ),
        Measure(
            "similarity",
            "mean cosine of local vectors with one another; for source random, of two draws of "
            "random texts",
            (-1.0, 1.0),
            in_full=True,
        ),
        Measure(
            "to_task", "their mean cosine with the task vector, centered", (-1.0, 1.0), in_full=True
        ),
    ),
)


ANALYSIS = Analysis(
    subject="the task in one vector of {}",
    category=CAUSES,
    measured=Measured(
        {"answers": "vectors", "similarity": "vector_similarity"}, twins=True, builds_prompts=True
    ),
    summary=Summary(
        {"answers": "vectors/answers", "similarity": "vectors/similarity", "prompts": "prompts"}
    ),
    figure=Presented("A task in one vector"),
    table=Tabulated(
        "A task in one vector",
        note="Means over tasks and seeds with intervals over seeds and test texts; demonstrations "
        "fixed per seed. Layer -1 is the one that is best on the other half of the texts. "
        "Without demonstrations, the query stays at its place; prompts with a few are shorter. "
        "Labels are compared by their first tokens.",
        index=("vector", "source", "number", "layer"),
        averaged=True,
    ),
    asked_for="vectors.kinds",
)
