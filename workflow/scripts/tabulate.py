"""Write all models' summaries of an analysis, which a param names, as tables of four formats."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from inspect import signature

from anchorflow.config.registry import entries, load
from anchorflow.config.stages import PRESENTED, folder_of, table_at
from anchorflow.present.page import tabulate_declared, write_csv, write_page
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import confidence_of, job, read_inputs

if __name__ == "__main__":
    with job(snakemake):
        analysis, tables = snakemake.params.analysis, read_inputs(snakemake)
        name, shown = next(iter(tables.items()))
        if "tabulate" in entries(folder_of(analysis)):
            tabulate = getattr(load(folder_of(analysis), "tabulate"), f"tabulate_{analysis}")
            known = {"confidence": confidence_of(snakemake.input)}
            wanted = signature(tabulate).parameters
            page = tabulate(**tables, **{k: v for k, v in known.items() if k in wanted})
        else:
            table = TABLES[table_at(snakemake.input[name][0])]
            page = tabulate_declared(shown, table, PRESENTED[analysis].table)
        write_csv(snakemake.output.csv, shown)
        write_page(dict(snakemake.output.items()), page)
