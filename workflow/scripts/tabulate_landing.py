"""Write where on the demonstrations attention lands in all models, as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import LANDING, read_tables
from anchorflow.tabulate import tabulate_landing, write_csv, write_readable

NOTE = (
    "Share of the target's attention to the demonstrations that lands on each of their segments, "
    "averaged over heads and tasks, at five depths; in the last row, the segment's share of the "
    "tokens, which attention spread evenly would have. Means over seeds with bootstrap intervals "
    "over seeds and examples. Much of what text gets may go to single tokens that collect "
    "attention whatever the query: they are narrow stripes in the figure. "
    "results/tables/landing.csv has every layer, task and place."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        landing = read_tables(snakemake.input.landing, LANDING)
        write_csv(snakemake.output.csv, landing)
        write_readable(
            dict(snakemake.output.items()),
            "Where on the demonstrations attention lands",
            NOTE,
            tabulate_landing(landing),
        )
