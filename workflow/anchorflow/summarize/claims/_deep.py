"""AUCROC_l: how well attention to the label words predicts the model's answer ([A] §2.3)."""

from anchorflow.summarize.by_task import SeedStatistic
from anchorflow.summarize.claims._claim import Run
from anchorflow.summarize.claims._effects import several_layers
from anchorflow.summarize.deep import auc_of_predictions

TELLS_NOTHING = "in no seed does the model predict two labels"


def auc_by_seed(run: Run) -> tuple[list[SeedStatistic], int]:
    """AUCROC_l, [L], by seed, and the number of layers."""
    pairs = zip(run.seeds("attention"), run.seeds("predictions"), strict=True)
    layers = several_layers(run.rows("attention")["layer"].n_unique())
    return [(auc_of_predictions(a, told), len(told)) for a, told in pairs], layers
