"""Whether answers follow the prior or the demonstrations' mapping."""

import numpy as np
import polars as pl

from anchorflow.analyses.override import DERANGED
from anchorflow.analyses.override import OVERRIDE_SUMMARY as SUMMARY
from anchorflow.arrays import Array, divided
from anchorflow.config.cell_names import OWN
from anchorflow.statistics.by_task import (
    estimate_over_seeds,
    require_examples,
    skipped_prompts,
    texts_of,
)
from anchorflow.statistics.estimates import SeedStatistic
from anchorflow.statistics.settings import summarize_settings

PRIOR = "first_only"  # the method that answers without demonstrations
_PARTS = 5  # means from which the measures of one setting are made


def with_prior(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of all ways of answering, with the answer without demonstrations as ``prior``."""
    keys = ["task", "seed", "example"]
    prior = rows.filter(method=PRIOR).select(*keys, prior="prediction")
    return rows.filter(pl.col("method") != PRIOR).join(prior, on=keys)


def parts_of_seed(rows: pl.DataFrame) -> SeedStatistic:
    """Means over texts from which :func:`measures_of_parts` makes the measures, [R, 5].

    ``rows`` are of one way of answering and one seed. With the indicator c of a text whose prior r
    and mapping m differ, and its answer a: the means of c, of c [a = m], and of c [a = r]; and of
    the last two where a is the answer to another text, averaged over all texts of other classes. A
    text alone has no other, and its own answer counts: it depends on it whether there is a value.
    """
    ordered = rows.sort("example")
    answer, mapping, prior = (ordered[name].to_numpy() for name in ("prediction", "label", "prior"))
    differ = mapping != prior
    own = np.stack([differ, differ & (answer == mapping), differ & (answer == prior)], 1)
    other_class = mapping[:, None] != mapping  # [texts, texts]
    given = [other_class & (answer == followed[:, None]) for followed in (mapping, prior)]

    def statistic(weights: Array) -> Array:
        total = weights.sum(1, keepdims=True)
        others = weights @ other_class.T
        exchanged = [divided(weights @ each.T, others, others > 0) for each in given]  # [R, texts]
        of_own = weights @ own
        of_others = np.stack(
            [(weights * differ * np.nan_to_num(share)).sum(1) for share in exchanged], 1
        )
        alone = (weights > 0).sum(1) == 1
        of_others[alone] = of_own[alone, 1:]
        means = np.concatenate([of_own, of_others], 1)
        return divided(means, np.broadcast_to(total, means.shape), total > 0)

    return SeedStatistic(statistic, texts_of(ordered))


def measures_of_parts(parts: Array) -> Array:
    """The measures in the summary's order, [..., 7], from means over texts and seeds, [..., 5]."""
    differ, mapping, prior, exchanged, exchanged_prior = np.moveaxis(parts, -1, 0)
    neither = differ - mapping - prior

    def ratio(part: Array, whole: Array) -> Array:
        return divided(part, whole, whole > 0)

    override = ratio(mapping, mapping + prior)
    by_others = ratio(exchanged, exchanged + exchanged_prior)
    shares = [ratio(part, differ) for part in (mapping, prior, neither)]
    return np.stack([differ, *shares, override, by_others, override - by_others], -1)


def over_exchanged(parts: Array) -> Array:
    """The last of the measures, [..., 1], from means over texts and seeds, [..., 5]."""
    return measures_of_parts(parts)[..., -1:]


def summarize_override(
    override: pl.DataFrame, compression: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Shares of answers by what they follow, with deranged and with the task's own label words.

    ``compression`` has the answers with the task's own words; those of the texts, seeds and ways in
    ``override`` count.
    """
    require_examples(override)
    cells, ways = ["task", "seed", "example"], override["method"].unique(maintain_order=True)
    own = compression.filter(
        pl.col("share").is_null(), pl.col("draw") == 0, pl.col("method").is_in(ways.implode())
    ).join(override.select(cells).unique(), on=cells, how="semi")
    both = pl.concat(
        with_prior(rows.select(override.columns)).with_columns(words=pl.lit(words))
        for rows, words in ((override, DERANGED), (own, OWN))
    )
    measured = [way for way in ways if way != PRIOR]
    settings = pl.DataFrame({"method": measured}).join(
        pl.DataFrame({"words": [DERANGED, OWN]}), how="cross"
    )

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        texts = texts_of(rows)
        parts = []
        for method, words in settings.iter_rows():
            of_way = rows.filter(method=method, words=words)
            known = np.isin(texts, of_way["example"].to_numpy())
            parts.append((parts_of_seed(of_way).statistic, known))

        def statistic(weights: Array) -> Array:
            return np.concatenate([of(weights[:, known]) for of, known in parts], 1)

        return SeedStatistic(statistic, texts)

    def by_setting(parts: Array) -> Array:
        apart = parts.reshape(*parts.shape[:-1], len(settings), _PARTS)
        return measures_of_parts(apart).reshape(*parts.shape[:-1], -1)

    return summarize_settings(
        SUMMARY,
        settings,
        lambda rows: estimate_over_seeds(rows, of_seed).map(by_setting),
        both,
        prompts,
        confidence,
        further=(skipped_prompts(prompts, "fixed", override),),
    )
