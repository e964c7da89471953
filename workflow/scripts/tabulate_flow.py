"""Write the flow summary of all models as CSV, Markdown and HTML."""

from anchorflow.logs import job_log
from anchorflow.tables import FLOW, read_tables
from anchorflow.tabulate import tabulate_flow, write_csv, write_readable

NOTE = (
    "Layers counted from 0, five depths per model; each cell is S / (S_wp + S_pq + "
    "S_ww) with its bootstrap interval. s_wp: text to label words, s_pq: label words "
    "to target, s_ww: all other pairs. results/tables/flow.csv has every layer and "
    "the absolute values."
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        flow = read_tables(snakemake.input.flow, FLOW)
        write_csv(snakemake.output.csv, flow)
        write_readable(
            dict(snakemake.output.items()),
            "Shares of the three information flows",
            NOTE,
            tabulate_flow(flow),
        )
