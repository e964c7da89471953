"""Tables of one row per key and one column per measure, each an entry; others by their keys."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, at_depths, pivoted

Rows = Callable[[pl.DataFrame], pl.DataFrame]


class Plain(NamedTuple):
    """A table: its title, how to read it, and which rows of the summary it shows."""

    title: str
    note: str
    keys: Sequence[str]
    column: str = "measure"
    rows: Rows = lambda summary: summary


def tabulate_plain(
    word: str, summary: pl.DataFrame, title: str = "", keys: Sequence[str] = ()
) -> Page:
    """The table of a summary that has no module of its own.

    Parameters
    ----------
    word : str
        Name of the summary. Where ``PLAIN`` lacks it, ``title`` and ``keys`` say what is shown:
        one row per model and key, one column per measure.
    summary : DataFrame
        Columns ``model``, ``measure``, the keys, ``mean``, ``low``, and ``high``, of all models.
    """
    shown = PLAIN.get(word)
    if shown is None:
        rows = ", ".join(key for key in keys if key != "measure")
        note = f"One row per {rows}; a column per measure, with intervals."
        index = ["model", *(key for key in keys if key not in ("model", "measure"))]
        shown = Plain(title, note, index)
    table = pivoted(shown.rows(summary), shown.keys, shown.column)
    return Page(shown.title, shown.note, table.fill_null("–"))


def _averaged(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of the average over tasks."""
    return summary.filter(pl.col("task") == AVERAGE)


def _in_several_layers(knockouts: pl.DataFrame) -> pl.DataFrame:
    """The bands of layers, averaged over tasks; single layers if that is all."""
    averaged = _averaged(knockouts)
    together = averaged.filter(pl.col("band") != "single")
    return averaged if together.is_empty() else together


def _correlations(confusion: pl.DataFrame) -> pl.DataFrame:
    """The rank correlation at five depths, of tasks that have one in some layer and on average."""
    correlation = confusion.filter(measure="correlation", heads="concatenated")
    defined = correlation.filter(pl.col("mean").is_not_null())["task"]
    shown = (pl.col("task") == AVERAGE) | pl.col("task").is_in(defined.unique())
    return at_depths(correlation.filter(shown))


def with_skipped(summary: pl.DataFrame, *measures: str) -> pl.DataFrame:
    """The rows by model and task, with the number of skipped prompts noted at these measures."""
    noted = (pl.col("skipped") > 0) & pl.col("measure").is_in(measures)
    count = pl.when(noted).then(pl.format(" ({} skipped)", "skipped"))
    order = {name: at for at, name in enumerate(summary["task"].unique(maintain_order=True))}
    return summary.with_columns(note=count).sort(
        "model", pl.col("task").replace_strict(order), maintain_order=True
    )


def _best_heads(heads: pl.DataFrame) -> pl.DataFrame:
    """The five heads of highest agreement, by their largest attention, per model and task."""
    largest = heads.filter(pl.col("weights") == "max")
    best = (
        largest.filter(pl.col("measure") == "agreement")
        .sort("mean", descending=True, maintain_order=True)
        .group_by("model", "task", maintain_order=True)
        .head(5)
        .select("model", "task", "layer", "head", pl.int_range(pl.len()).alias("rank"))
    )
    tasks = pl.Enum(heads["task"].unique(maintain_order=True))
    return best.join(largest, on=["model", "task", "layer", "head"]).sort(
        "model", pl.col("task").cast(tasks), "rank", maintain_order=True
    )


def _shares(landing: pl.DataFrame) -> pl.DataFrame:
    """Shares of attention at five depths, and of tokens."""
    averaged = _averaged(landing).filter(pl.col("segment").is_not_null())
    shares = at_depths(averaged.filter(pl.col("measure") == "share"))
    lengths = averaged.filter(pl.col("measure") == "length", pl.col("layer") == 0)
    both = pl.concat(
        [
            shares.with_columns(pl.col("layer").cast(pl.String)),
            lengths.with_columns(pl.lit("tokens").alias("layer")),
        ]
    )
    return both.sort("model", maintain_order=True)


def _best_layers(decoding: pl.DataFrame) -> pl.DataFrame:
    """The layer of largest gain, averaged over tasks, per model, source, target, and offset."""
    averaged, index = _averaged(decoding), ["model", "source", "target", "offset"]
    best = (
        averaged.filter(pl.col("measure") == "gain")
        .sort("mean", descending=True, nulls_last=True, maintain_order=True)
        .group_by(index, maintain_order=True)
        .first()
        .select(*index, "layer")
    )
    return averaged.join(best, on=[*index, "layer"]).sort(index, maintain_order=True)


PLAIN: Mapping[str, Plain] = {
    "accuracy": Plain(
        "Accuracy of in-context learning",
        "Means over seeds with intervals over seeds and texts; demonstrations fixed per seed. "
        "majority: what always answering the most frequent true label would score. skipped: "
        "prompts longer than the model's context, not run.",
        ("model", "task", "examples", "seeds", "skipped"),
    ),
    "loyalty": Plain(
        "Loyalty under isolation",
        "Means over tasks and seeds with intervals over seeds, texts and draws of random "
        "positions; demonstrations fixed per seed. The isolated positions may not attend to "
        "earlier tokens in the first or last layers, as many as said: label, the label words; "
        "random, other tokens of the demonstrations; before and after, the tokens next to each "
        "label word; text, tokens of each text. label_loyalty: share of predictions as in the "
        "untouched run; word_loyalty: Jaccard similarity of the likeliest tokens with those of "
        "the untouched run; divergence: of the label distribution from the untouched one, in "
        "nats. results/tables/loyalty.csv has every task.",
        ("model", "variant", "layers", "side", "positions"),
        rows=_averaged,
    ),
    "knockouts": Plain(
        "Edges of attention cut",
        "Means over tasks and seeds with intervals over seeds, texts and draws of random edges; "
        "demonstrations fixed per seed. Attention along a class of edges, or (control) along as "
        "many random edges of the same rows, is cut in the layers that are named: the first, "
        "middle, or last third, or all. loss_change and probability_change are of the true label; "
        "loss_size is the absolute change of the loss; label_loyalty, the share of unchanged "
        "predictions; word_loyalty, the Jaccard similarity of the likeliest tokens. "
        "results/tables/knockouts.csv has every task and every single layer.",
        ("model", "edges", "control", "band", "layer"),
        rows=_in_several_layers,
    ),
    "cutoffs": Plain(
        "Layers that need the demonstrations",
        "Layers, from the first one on, in which queries have to see the demonstrations so that "
        "95 % of accuracy and of label loyalty are kept there and with more layers; means over "
        "seeds with intervals over seeds and texts; demonstrations fixed per seed. Above these "
        "layers they see: first, only the prompt's first token and the instruction; label, label "
        "words too; random, as many other tokens instead. results/tables/cutoffs.csv has accuracy "
        "and loyalty by layer.",
        ("model", "task"),
        column="sees",
        rows=lambda cutoffs: cutoffs.filter(pl.col("measure") == "needed"),
    ),
    "deep": Plain(
        "Label-word attention as a predictor of the model's own predictions",
        "Layers counted from 0, five depths per model. auc: AUCROC_l (0.5 is chance); cumulative: "
        "R_l, the share of all layers' excess over 0.5 reached by this layer, and – where there "
        "is no excess to share. unpredicted: classes that the model never predicts, summed over "
        "seeds and left out. results/tables/deep.csv has every layer.",
        ("model", "task", "layer", "unpredicted"),
        rows=at_depths,
    ),
    "confusion": Plain(
        "Confusion of labels and distance of their keys",
        "Spearman's rank correlation, over pairs of labels, of how well two labels' examples are "
        "told apart (AUC of the ratio of their probabilities) with the distance of their label "
        "words' keys in a layer, all heads as one vector, along the leading principal components "
        "of the targets' queries; means over seeds with intervals over seeds and texts, distances "
        "held fixed and pairs taken as given. Tasks with fewer than three labels have no "
        "correlation. In layer 0 the target's query varies with its position alone. "
        "results/tables/confusion.csv has every layer, pair and distance, and the same with "
        "distances within heads.",
        ("model", "layer"),
        column="task",
        rows=_correlations,
    ),
    "neighbors": Plain(
        "Chosen demonstrations",
        "Means over seeds with intervals over seeds and texts. random: demonstrations drawn once "
        "per seed, equally many of each label; nearest: as many training texts, those most "
        "similar to the test text by the cosine of a sentence encoder's embeddings, the most "
        "similar last (Liu et al. 2022); nearest_per_label: the most similar ones of each label, "
        "as many of each as with random; representative: of each label, the texts nearest to the "
        "centers of k-means clusters, one of each, and outlying: those farthest from all of them; "
        "other_task: random texts of another task of the run under this task's labels; "
        "random_labels: the random demonstrations with their labels shuffled among them (Min et "
        "al. 2022). The last four are the same for all test texts of a seed. similarity: that "
        "cosine, averaged over the demonstrations; same_label: share of them that carry the test "
        "text's label; majority: accuracy of their most frequent label, of several the last, "
        "without any model; accuracy_gain: minus random, paired by example. Texts identical to "
        "the test text are left out of nearest ones, and those identical to any test text of "
        "representative and outlying ones. Prompts that exceed the context are skipped; pairs "
        "with one are left out of the gain.",
        ("model", "task", "choice"),
        rows=lambda neighbors: with_skipped(neighbors, "accuracy", "accuracy_gain"),
    ),
    "heads": Plain(
        "Heads whose attention reconstructs predictions",
        "The five heads whose attention, as weights of the demonstrations' labels, agrees most "
        "often with the model's predictions, by task and averaged over tasks; weights are the "
        "largest attention to a token of each demonstration. Means over seeds with intervals over "
        "seeds and examples. They were chosen on these very examples, so their agreement is too "
        "high; results/tables/regressors.md has it held out. Correlation is that of the weights "
        "with the similarity of next-token distributions after each text alone. "
        "results/tables/heads.csv has every head and kind of weights.",
        ("model", "task", "layer", "head"),
        rows=_best_heads,
    ),
    "landing": Plain(
        "Where on the demonstrations attention lands",
        "Share of the target's attention to the demonstrations that lands on each of their "
        "segments, averaged over heads and tasks, at five depths; in the last row, the segment's "
        "share of the tokens, which attention spread evenly would have. Means over seeds with "
        "intervals over seeds and examples. Much of what text gets may go to single tokens that "
        "collect attention whatever the query: they are narrow stripes in the figure. "
        "results/tables/landing.csv has every layer, task and place.",
        ("model", "layer"),
        column="segment",
        rows=_shares,
    ),
    "decoding": Plain(
        "What keys and values around label words tell",
        "How often ridge regression tells, from a key or a value around a label word, the "
        "demonstration's label, or the likeliest token after its text in the template, without "
        "demonstrations; rounds of one demonstration per label held out in folds, averaged over "
        "heads and tasks, each with the same for shuffled targets, which is chance (labels are "
        "shuffled within rounds). Offset 0 is the label word, which its own key and value name; "
        "before it, the text must tell. At each offset, the layer of largest gain over chance, "
        "chosen on these demonstrations, which flatters it. Means over seeds with intervals over "
        "seeds and demonstrations. results/tables/decoding.csv has every layer and task.",
        ("model", "source", "target", "offset", "layer"),
        rows=_best_layers,
    ),
}
