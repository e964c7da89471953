"""All stages: their files and tables, and how their jobs may run.

A stage is one folder under ``results``. The rules, the manifest, the data dictionary, and the
scripts that present results all read this list.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorflow.config.registry import declared, entries

# What the papers' claims should not be true of: a model's untrained twins, and demonstrations whose
# labels are shuffled among them.
NULLS = ("untrained", "shuffled")
MODEL, TASK, CELL = "{model}", "{task}", "{model}/{task}/{seed}"
WORLDS = "worlds"  # what is measured of random worlds, without any model, in a single job


@dataclass(frozen=True)
class Stage:
    """One folder of artifacts, with a job per ``path``.

    A stage with several tables writes ``path/file`` for each key of ``tables``; the value names
    the table. Any other stage writes one file with the table of its own name.
    """

    name: str
    path: str = CELL
    tables: Mapping[str, str] = field(default_factory=dict)
    is_folder: bool = False  # jobs write folders of files that are not tables
    written_with: str = ""  # the stage whose rule also writes this one
    sharded: bool = False  # a large test set is split among several jobs
    first_seed: bool = False  # measured for the first seed only
    repeatable: bool = True  # False: contains measured times, which differ between runs
    shown_by: str = ""  # runs without pages or figures of this name skip the stage

    def files(self) -> Iterator[tuple[str, str, str]]:
        """File, table and path pattern of every table that the stage writes."""
        if not self.is_folder:
            for file, table in (self.tables or {"": self.name}).items():
                inner = f"{self.path}/{file}" if file else self.path
                yield file, table, f"results/{self.name}/{inner}.parquet"


@dataclass(frozen=True)
class Presented:
    """A result that is summarized per model, plotted, or tabulated over all models.

    One that is not ``of_models`` is summarized and plotted once.

    ``reads`` names the inputs of the summary, or of figure and table if there is no summary: each
    is a stage, or ``stage/file`` for a stage with several tables. ``slices`` are the required
    parts of the configuration, named as in ``workflow/rules/settings.smk``.
    """

    name: str
    subject: str  # of the messages; "{}" stands for the model
    category: str  # of the report
    reads: Mapping[str, str]
    slices: tuple[str, ...] = ("statistics",)
    summary: bool = True
    figure: str = ""  # its title in the report; empty for no figure
    figure_slices: tuple[str, ...] = ("style",)
    table: str = ""  # its title in the report; empty for no table
    also: Mapping[str, str] = field(default_factory=dict)  # additional inputs of figure and table
    of_models: bool = True
    with_words: bool = False  # includes cells with other label words
    asked_for: str = ""  # a list or number of the configuration; without it, runs do without
    with_nulls: bool = False  # the summary also reads its inputs as measured of NULLS
    worded: Mapping[str, str] = field(default_factory=dict)  # further inputs, of other label words
    further: Mapping[str, str] = field(default_factory=dict)  # inputs where ``further_for`` lists
    further_for: str = ""  # something in the configuration
    heavy: bool = False  # summarizing may take as much memory as the model
    repeatable: bool = True
    settings_of: tuple[str, ...] = ()  # inputs whose settings a summary records; or the first

    @property
    def by_default(self) -> bool:
        """Whether every run has it, whatever its configuration asks for."""
        return not (self.with_words or self.asked_for)

    @property
    def path(self) -> str:
        """The file of summary and figure in their folders, without its ending."""
        return MODEL if self.of_models else WORLDS

    def measured_in(self) -> tuple[str, ...]:
        """The inputs whose settings say what was measured."""
        return self.settings_of or (next(iter(self.reads)),)

    def may_read(self) -> dict[str, str]:
        """Inputs of the summary, and further ones that the run may have; see :func:`null_reads`."""
        nulls = NULLS if self.with_nulls else ()
        further = {f"{null}_{name}": read for null in nulls for name, read in self.reads.items()}
        return {**self.reads, **further, **self.worded, **self.further}

    def read_in(self, asked: Callable[[str], Any]) -> dict[str, str]:
        """Inputs of every run, and those that a run has if it asks for what they belong to.

        ``asked`` tells whether the configuration lists something under a key.
        """
        return {
            name: read
            for name, read in self.reads.items()
            if not self.by_default or asked(asked_for(read))
        }

    def null_reads(self, null: str, controls: Mapping[str, Any]) -> dict[str, str]:
        """Inputs such as ``untrained_saliency`` that a run with these ``controls`` has.

        They are the tables of all untrained twins of the model, or of all tasks with shuffled
        labels, in the stages that the run measures of them.
        """
        measured = null_stages(null, controls) if self.with_nulls else ()
        return {f"{null}_{name}": read for name, read in self.reads.items() if read in measured}

    def shows(self) -> dict[str, str]:
        """Inputs of figure and table: the summary, or else the measured tables; and ``also``."""
        return {**({self.name: self.name} if self.summary else self.reads), **self.also}


# Categories of the report, which sorts them by name.
CLAIMS = "1 Claims"
INFORMATION = "2 Label words as anchors"
ANCHORS = "3 Anchors put to use"
KERNEL = "4 Kernel regression"
ACCURACY = "5 Accuracy"
CAUSES = "6 What carries the answer"

MEASURED = (
    Stage("texts", TASK),
    Stage("samples", "{task}/{seed}"),
    Stage("tokenizers", MODEL, is_folder=True),
    Stage("models", MODEL, is_folder=True),
    Stage("prompts"),
    Stage("embeddings", TASK),
    Stage("further_embeddings", TASK, shown_by="further_embeddings"),
    Stage("rare_words", TASK, shown_by="robustness"),
    Stage("perturbed_texts", "{task}/{seed}", shown_by="robustness"),
    Stage("attention", sharded=True),
    Stage("predictions", sharded=True, written_with="attention"),
    Stage("saliency", sharded=True),
    Stage("isolation", sharded=True),
    Stage("knockout", sharded=True, shown_by="knockouts"),
    Stage("faithfulness", sharded=True, shown_by="faithful"),
    Stage("cutoff", sharded=True, shown_by="cutoffs"),
    Stage("transplant", sharded=True, shown_by="transplants"),
    Stage(
        "reweighting",
        tables={
            "beta": "beta",
            "beta_anchor": "beta",
            "descent": "descent",
            "learning_rates": "learning_rates",
            "predictions": "reweighting",
            "prompts": "prompts",
        },
    ),
    Stage("compression", sharded=True),
    Stage("timing", first_seed=True, repeatable=False),
    Stage("diagnosis"),
    Stage(
        "retrieval",
        tables={"samples": "samples", "prompts": "prompts", "predictions": "retrieval"},
        sharded=True,
    ),
    Stage(
        "perturbations",
        tables={"prompts": "prompts", "predictions": "perturbations"},
        sharded=True,
        shown_by="robustness",
    ),
    Stage(
        "kernel",
        tables={
            "samples": "samples",
            "prompts": "prompts",
            "attention": "kernel_attention",
            "predictions": "predictions",
            "kernel": "kernel",
            "segments": "segments",
            "places": "places",
            "similarity": "similarity",
            "states": "states",
            "counts": "counts",
        },
        sharded=True,
    ),
    Stage(
        "orders",
        tables={"prompts": "prompts", "predictions": "orders"},
        sharded=True,
        shown_by="order_effects",
    ),
    Stage("probes"),
    Stage("token_saliency", first_seed=True, shown_by="flow_page"),
    Stage("shown_prompts", first_seed=True, shown_by="flow_page", written_with="token_saliency"),
    Stage("shown_knockouts", first_seed=True, shown_by="flow_page", written_with="token_saliency"),
    Stage("theory", WORLDS),
    Stage("flow_page", is_folder=True, first_seed=True, shown_by="flow_page"),
)


def _read_by_claims() -> dict[str, str]:
    """Tables that claims read, by name, or as ``stage_file`` if several stages write the table."""
    written = [(s.name, file, table) for s in MEASURED for file, table, _ in s.files()]
    count = Counter(table for _, _, table in written)
    named = {
        table if count[table] == 1 or not file else f"{stage}_{file}": (
            f"{stage}/{file}" if file else stage
        )
        for stage, file, table in written
    }
    folder = "summarize/claims"
    wanted = {name for claim in entries(folder) for name in declared(folder, claim, "READS")}
    return {name: named[name] for name in sorted(wanted | {"predictions"})}


PRESENTED = (
    Presented(
        "flow",
        "the information flows of {}",
        INFORMATION,
        {"saliency": "saliency", "prompts": "prompts"},
        slices=("statistics", "saliency"),
        figure="Information flow over the layers (Fig. 3 of [A])",
        table="Shares of the information flows",
    ),
    Presented(
        "loyalty",
        "the loyalty of {} under isolation",
        INFORMATION,
        {"isolation": "isolation", "prompts": "prompts"},
        figure="Loyalty under isolation (Fig. 4 of [A])",
        table="Loyalty under isolation",
    ),
    Presented(
        "knockouts",
        "what cutting edges of attention does to {}",
        CAUSES,
        {"knockout": "knockout", "prompts": "prompts"},
        figure="Edges of attention cut",
        table="Edges of attention cut",
        asked_for="knockout.classes",
    ),
    Presented(
        "faithful",
        "how well saliency foretells what cutting edges does to {}",
        CAUSES,
        {"faithfulness": "faithfulness", "knockout": "knockout", "prompts": "prompts"},
        settings_of=("faithfulness", "knockout"),
        figure="Saliency and attention compared with cutting",
        table="Saliency and attention compared with cutting",
        asked_for="faithfulness.classes",
    ),
    Presented(
        "cutoffs",
        "from which layer on {} does without the demonstrations",
        CAUSES,
        {"cutoff": "cutoff", "prompts": "prompts"},
        figure="Layers that need the demonstrations",
        table="Layers that need the demonstrations",
        asked_for="cutoff.sees",
    ),
    Presented(
        "transplants",
        "what moves the answers of {} to another prompt's",
        CAUSES,
        {"transplant": "transplant", "prompts": "prompts"},
        figure="Vectors of label words put into another prompt",
        table="Vectors of label words put into another prompt",
        asked_for="transplant.places",
    ),
    Presented(
        "deep",
        "how well attention predicts the answers of {}",
        INFORMATION,
        {"attention": "attention", "predictions": "predictions"},
        figure="AUCROC and R over the layers (Fig. 5 of [A])",
        table="AUCROC and R",
    ),
    Presented(
        "label_words",
        "what other label words change in {}",
        INFORMATION,
        {
            "predictions": "predictions",
            "attention": "attention",
            "saliency": "saliency",
            "isolation": "isolation",
            "prompts": "prompts",
        },
        slices=("statistics", "words"),
        settings_of=("isolation",),
        figure="Other label words",
        figure_slices=("style", "label_word_sets"),
        table="Other label words",
        with_words=True,
    ),
    Presented(
        "performance",
        "what re-weighting gains in {}",
        ANCHORS,
        {
            "predictions": "reweighting/predictions",
            "auxiliary": "reweighting/prompts",
            "prompts": "prompts",
        },
        slices=("statistics", "baselines"),
        table="Re-weighting and its baselines (Table 1 of [A])",
    ),
    Presented(
        "reweighting",
        "the weights of attention to label words in {}",
        ANCHORS,
        {"beta": "reweighting/beta"},
        summary=False,
        figure="Fitted weights by layer and head",
    ),
    Presented(
        "retention",
        "what compressed prompts retain in {}",
        ANCHORS,
        {"compression": "compression", "prompts": "prompts"},
        figure="Compressed demonstrations (Table 2 of [A])",
        table="Compressed demonstrations (Table 2 of [A])",
    ),
    Presented(
        "timing",
        "accuracy and time per query of {}",
        ANCHORS,
        {"timing": "timing"},
        summary=False,
        figure="Accuracy against time per query (Table 3 of [A])",
        table="Accuracy and time per query (Table 3 of [A])",
        also={"retention": "retention"},
    ),
    Presented(
        "confusion",
        "the labels confused by {}",
        ANCHORS,
        {"predictions": "predictions", "diagnosis": "diagnosis", "prompts": "prompts"},
        figure="Confused labels and key distances (Fig. 6 of [A])",
        figure_slices=("style", "labels"),
        table="Confused labels and key distances",
    ),
    Presented(
        "neighbors",
        "what chosen demonstrations gain in {}",
        KERNEL,
        {
            "predictions": "retrieval/predictions",
            "retrieved": "retrieval/prompts",
            "prompts": "prompts",
        },
        figure="Chosen demonstrations",
        table="Chosen demonstrations",
    ),
    Presented(
        "robustness",
        "what perturbed test texts cost {}",
        KERNEL,
        {
            "predictions": "perturbations/predictions",
            "perturbed": "perturbations/prompts",
            "prompts": "prompts",
            "texts": "perturbed_texts",
        },
        settings_of=("predictions", "texts"),
        figure="Perturbed test texts",
        table="Perturbed test texts (Table 1 of [K])",
        asked_for="perturbations.kinds",
    ),
    Presented(
        "order_effects",
        "what the order of demonstrations changes in {}",
        KERNEL,
        {"predictions": "orders/predictions", "prompts": "orders/prompts"},
        slices=("statistics", "heads"),
        figure="Orders of demonstrations",
        table="Orders of demonstrations",
        asked_for="orders.count",
    ),
    Presented(
        "convergence",
        "how near kernel regression comes to Bayesian inference in random worlds",
        KERNEL,
        {"theory": "theory"},
        figure="Kernel regression and Bayesian inference (Theorem 1 of [K])",
        table="Kernel regression and Bayesian inference (Table 3 of [K])",
        of_models=False,
    ),
    Presented(
        "heads",
        "how well kernel regression reconstructs the predictions of {}",
        KERNEL,
        {
            "kernel": "kernel/kernel",
            "predictions": "kernel/predictions",
            "prompts": "kernel/prompts",
        },
        figure="Heads as kernel regressions",
        table="Best heads",
        heavy=True,
    ),
    Presented(
        "landing",
        "where attention to demonstrations lands in {}",
        KERNEL,
        {
            "segments": "kernel/segments",
            "places": "kernel/places",
            "prompts": "kernel/prompts",
        },
        figure="Where attention lands (Fig. 2 of [K])",
        table="Where attention lands",
    ),
    Presented(
        "regressors",
        "in-context learning and regressions for {}",
        KERNEL,
        {
            "kernel": "kernel/kernel",
            "predictions": "kernel/predictions",
            "counts": "kernel/counts",
            "samples": "kernel/samples",
            "prompts": "kernel/prompts",
            "embeddings": "embeddings",
        },
        slices=("statistics", "temperatures", "heads"),
        settings_of=("embeddings", "kernel"),
        further={"further_embeddings": "further_embeddings"},
        further_for="encoder.further",
        figure="Regressions by number of demonstrations",
        table="In-context learning and regressions (Table 2 of [K])",
        heavy=True,
    ),
    Presented(
        "decoding",
        "what probes decode from keys and values of {}",
        KERNEL,
        {"probes": "probes", "prompts": "kernel/prompts", "samples": "kernel/samples"},
        figure="What probes decode from keys and values",
        table="What probes decode from keys and values",
    ),
    Presented(
        "claims",
        "which claims hold for {}",
        CLAIMS,
        _read_by_claims(),
        slices=("statistics", "claims", "temperature"),
        with_nulls=True,
        worded={"worded_predictions": "predictions"},
        figure="Which claims hold",
        table="Which claims hold",
        heavy=True,
        repeatable=False,
    ),
    Presented(
        "accuracy",
        "the accuracy of {}",
        ACCURACY,
        {"predictions": "predictions", "prompts": "prompts"},
        table="Accuracy and skipped prompts",
    ),
)

STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        *MEASURED,
        *(
            Stage(
                shown.name,
                shown.path,
                repeatable=shown.repeatable,
                shown_by="" if shown.by_default else shown.name,
            )
            for shown in PRESENTED
            if shown.summary
        ),
    )
}

SHARDED = tuple(s.name for s in MEASURED if s.sharded and not s.written_with)


def null_stages(null: str, controls: Mapping[str, Any]) -> list[str]:
    """The stages that a run with these ``controls`` measures of one of ``NULLS``.

    With shuffled labels, only predictions are compared.
    """
    if null == "untrained":
        wanted = controls["stages"] if controls["untrained"] else []
    else:
        wanted = ["attention"] if controls["shuffled_labels"] else []
    return [stage.name for stage in MEASURED if (stage.written_with or stage.name) in wanted]


def asked_for(read: str) -> str:
    """The key without which a run has no such ``stage`` or ``stage/file``; empty for none."""
    shown_by = STAGES[read.partition("/")[0]].shown_by
    return next((shown.asked_for for shown in PRESENTED if shown.name == shown_by), "")


def presented(name: str) -> Presented:
    """The entry of that name."""
    return next(shown for shown in PRESENTED if shown.name == name)


def table_of(read: str) -> str:
    """The table that ``stage`` or ``stage/file`` holds."""
    name, _, file = read.partition("/")
    return STAGES[name].tables[file] if file else name


def files_of_tables() -> dict[str, list[str]]:
    """The path patterns of every table, including CSV files."""
    files: dict[str, list[str]] = {}
    for stage in STAGES.values():
        for _, table, pattern in stage.files():
            files.setdefault(table, []).append(pattern)
    for shown in PRESENTED:
        if shown.table:
            files[shown.name].append(f"results/tables/{shown.name}.csv")
    return files
