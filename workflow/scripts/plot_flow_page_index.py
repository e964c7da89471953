"""Link all information-flow pages of one model."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.analyses.flow_page import SHOWN_PROMPTS
from anchorflow.analyses.flow_page.index import index_page
from anchorflow.store.job import job
from anchorflow.store.parquet import read_tables
from anchorflow.store.replacing import replacing

if __name__ == "__main__":
    with job(snakemake), replacing(snakemake.output[0]) as file:
        shown = read_tables(snakemake.input.prompts, SHOWN_PROMPTS)
        page = index_page(snakemake.wildcards.model, shown, snakemake.params.labels)
        file.write_text(page, encoding="utf-8")
