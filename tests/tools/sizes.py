"""Sizes of models: of one to count by hand, and the settings of well-known ones."""

from anchorflow.model.size import Size

SIZE = Size(
    layers=2,
    hidden=4,
    keys_values=8,
    layer=500,
    multiplied=1000,
    parameters=2000,
    looked_up=500,
    head=500,
    itemsize=4,
)
