"""Draw the information flow between the tokens of a few prompts, a page each."""

from anchorflow.flow_page import flow_pages
from anchorflow.logs import job_log
from anchorflow.tables import PROMPTS, SHOWN_PROMPTS, TOKEN_SALIENCY, read_table, replacing

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input), replacing(snakemake.output[0]) as folder:
        folder.mkdir()
        pages = flow_pages(
            read_table(snakemake.input.saliency, TOKEN_SALIENCY),
            read_table(snakemake.input.shown, SHOWN_PROMPTS),
            read_table(snakemake.input.prompts, PROMPTS),
            **snakemake.params.spec,
        )
        for name, page in pages:
            (folder / name).write_text(page, encoding="utf-8")
