"""Write the page to open first, as Markdown and HTML."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.store.job import confidence_of, job, read_inputs, read_usage
from anchorflow.summary.page import write_summary
from anchorflow.summary.sections import sections_of

if __name__ == "__main__":
    with job(snakemake):
        run = snakemake.params.run
        write_summary(
            dict(snakemake.output.items()),
            "Summary of the run",
            sections_of(
                read_inputs(snakemake),
                run,
                read_usage(run["names"]),
                confidence_of(snakemake.input),
            ),
        )
