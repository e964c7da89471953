"""Plot the information flow between the tokens of a few prompts, one page each."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.analyses.flow_page import (
    SHOWN_HEADS,
    SHOWN_KNOCKOUTS,
    SHOWN_PROMPTS,
    TOKEN_SALIENCY,
)
from anchorflow.analyses.flow_page.plot import flow_pages
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table
from anchorflow.store.replacing import replacing

if __name__ == "__main__":
    with job(snakemake), replacing(snakemake.output[0]) as folder:
        folder.mkdir()
        pages = flow_pages(
            read_table(snakemake.input.saliency, TOKEN_SALIENCY),
            read_table(snakemake.input.prompts, SHOWN_PROMPTS),
            read_table(snakemake.input.knockouts, SHOWN_KNOCKOUTS),
            read_table(snakemake.input.heads, SHOWN_HEADS),
            read_table(snakemake.input.whole, PROMPTS),
            **snakemake.params.spec,
        )
        for name, page in pages:
            (folder / name).write_text(page, encoding="utf-8")
