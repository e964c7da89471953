"""The table of kernel regression beside exact inference, with the published row."""

from anchorflow.analyses.theory.tabulate import tabulate_theory
from constructed.theory import summary


def test_the_published_row_comes_first_and_kernels_name_their_inverse() -> None:
    page = tabulate_theory(summary())
    assert page.table.columns == ["kernel", "inverse", "n = 1", "n = 4", "n = 16", "n = 64"]
    assert page.table.row(0) == ("[K], Table 3", "–", "1.32", "0.52", "0.16", "0.09")
    assert page.table["inverse"].to_list()[1:5] == ["ridge 1e-6", "ridge 1e-6", "rank 20", "–"]
    assert page.table.row(1)[3] == "0.60 [0.57, 0.63]"


def test_slopes_floors_and_excess_stand_below() -> None:
    further = tabulate_theory(summary()).further
    trend = further["Slope and floor of the distance"]
    assert trend.columns == ["kernel", "inverse", "slope", "floor"]
    assert trend.filter(kernel="theorem", inverse="ridge 1e-6")["floor"].to_list() == [
        "0.10 [0.07, 0.13]"
    ]
    (excess,) = (table for name, table in further.items() if name.startswith("Distance minus"))
    assert excess.filter(kernel="prediction")["n = 16"].to_list() == ["-0.17 [-0.19, -0.16]"]
    assert "theorem" in excess["kernel"].to_list()  # along leading directions
    assert further["Accuracy"].row(0)[2:] == ("0.34", "0.74", "0.93", "0.96")
