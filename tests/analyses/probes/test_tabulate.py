"""The table of what probes decode."""

from anchorflow.analyses.probes.tabulate import tabulate_probes
from constructed.kernel import probes_summary, summary_of_nothing


def test_the_table_shows_every_offset() -> None:
    rows = tabulate_probes(probes_summary()).table
    assert rows["offset"].unique().sort().to_list() == [-1, 0]
    assert len(rows) == 2 * 2 * 2


def test_nothing_to_decode_is_a_table_without_rows() -> None:
    assert tabulate_probes(summary_of_nothing()).table.is_empty()
