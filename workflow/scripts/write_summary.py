"""Write the page to open first, as Markdown and HTML, and the table of what the run cost."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.present.page import write_csv
from anchorflow.store.job import confidence_of, job, read_inputs, read_usage
from anchorflow.summary.facts import costs, sections_of
from anchorflow.summary.page import write_summary

if __name__ == "__main__":
    with job(snakemake):
        run, output = snakemake.params.run, snakemake.output
        tables = read_inputs(snakemake)
        spent = costs(tables, read_usage(run["names"]), run["twins"])
        write_csv(output.costs, spent)
        write_summary(
            {"md": output.md, "html": output.html},
            "Summary of the run",
            sections_of(tables, run, spent, confidence_of(snakemake.input)),
        )
