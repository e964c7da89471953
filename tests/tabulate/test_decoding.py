"""The table of what probes decode, also where they decode nothing."""

from anchorflow.tabulate.decoding import tabulate_decoding
from constructed.decoding import summary, summary_of_nothing


def test_the_table_shows_every_offset() -> None:
    rows = tabulate_decoding(summary()).table
    assert rows["offset"].unique().sort().to_list() == [-1, 0]
    assert len(rows) == 2 * 2 * 2


def test_nothing_to_decode_is_a_table_without_rows() -> None:
    assert tabulate_decoding(summary_of_nothing()).table.is_empty()
