"""The figure of fitted weights."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.reweighting.plot import agreement_of_seeds, mean_factors


def test_the_figure_shows_the_geometric_mean_over_demonstrations_and_seeds() -> None:
    rows = [
        {"seed": seed, "layer": layer, "head": head, "demonstration": k, "beta": beta + seed}
        for seed in (0, 1)
        for layer in (0, 1)
        for head in range(11)
        for k, beta in enumerate((10.0 * layer, head - 1.0))
    ]
    factors = mean_factors(pl.DataFrame(rows).sample(fraction=1, shuffle=True, seed=0))
    assert factors.shape == (2, 11)
    for layer in (0, 1):
        for head in range(11):
            expected = np.exp((10 * layer + head - 1) / 2 + 0.5)
            assert factors[layer, head] == pytest.approx(expected)


def test_seeds_agree_as_their_factors_correlate_over_layers_and_heads() -> None:
    def of(*seeds: list[float]) -> pl.DataFrame:
        rows = [
            {"seed": seed, "layer": 0, "head": head, "demonstration": 0, "beta": beta}
            for seed, values in enumerate(seeds)
            for head, beta in enumerate(values)
        ]
        return pl.DataFrame(rows)

    up, down = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    assert agreement_of_seeds(of(up, up)) == pytest.approx(1)
    assert agreement_of_seeds(of(up, up, down)) == pytest.approx(-1 / 3)  # 1, -1 and -1
    assert np.isnan(agreement_of_seeds(of(up)))
