"""The figure of loyalty under isolation, with a sweep over layers or without."""

from pathlib import Path

import polars as pl
from PIL import Image

from anchorflow.plot.loyalty import plot_loyalty
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.loyalty import LOYALTY
from anchorflow.summarize.loyalty import MEASURES


def heights(tmp_path: Path, counts: list[int]) -> int:
    """Pixels from top to bottom of the figure with these numbers of isolated layers."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "variant": "mask",
            "positions": positions,
            "side": side,
            "layers": layers,
            "measure": measure,
            "mean": 0.5,
            "low": 0.4,
            "high": 0.6,
            "examples": 6,
            "seeds": 2,
            "draws": 1,
            "skipped": 0,
        }
        for task in ("news", "average")
        for positions in ("label", "random")
        for side in ("first", "last")
        for layers in counts
        for measure in MEASURES
    ]
    style = {
        "panel_width": 2.0,
        "font_size": 8,
        "resolution": 50,
        "colors": ["#0072B2", "#D55E00", "#595959"],
    }
    path = tmp_path / f"{len(counts)}.png"
    plot_loyalty(pl.DataFrame(rows, schema=frame_schema(LOYALTY)), style, 0.95, {"png": path})
    with Image.open(path) as image:
        return image.height


def test_one_number_of_layers_is_drawn_without_a_sweep_over_it(tmp_path: Path) -> None:
    assert heights(tmp_path, [5]) < 0.7 * heights(tmp_path, [1, 5])
