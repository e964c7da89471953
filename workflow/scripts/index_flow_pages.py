"""Link all information-flow pages of one model."""

from anchorflow.flow_page import index_page
from anchorflow.logs import job_log
from anchorflow.tables import SHOWN_PROMPTS, read_tables, replacing

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input), replacing(snakemake.output[0]) as file:
        shown = read_tables(snakemake.input.shown, SHOWN_PROMPTS)
        page = index_page(snakemake.wildcards.model, shown, snakemake.params.labels)
        file.write_text(page, encoding="utf-8")
