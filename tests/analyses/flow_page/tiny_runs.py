"""Tiny runs of flow_page, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.flow_page import measure as flow_page
from stub_tokenizers import Decoder
from tiny_cells import OWN

COUNTED = {
    "flow_page": (flow_page, {}, lambda m: flow_page.measure_flow_page(m, Decoder(), OWN, 4))
}
