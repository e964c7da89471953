"""Write one summary of all models as CSV, Markdown and HTML; a param says which."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from inspect import signature

from anchorflow.config.registry import entries, load
from anchorflow.config.stages import presented
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import job, read_inputs
from anchorflow.store.parquet import read_settings
from anchorflow.tabulate.page import write_csv, write_page
from anchorflow.tabulate.plain import tabulate_plain

if __name__ == "__main__":
    with job(snakemake):
        word = snakemake.params.presents
        shown = presented(word)
        tables = read_inputs(snakemake, shown.shows())
        summary = next(iter(tables))
        if word in entries("tabulate"):
            tabulate = getattr(load("tabulate", word), f"tabulate_{word}")
            known = {"confidence": read_settings(snakemake.input[summary][0]).get("confidence")}
            wanted = signature(tabulate).parameters
            page = tabulate(**tables, **{k: v for k, v in known.items() if k in wanted})
        else:
            keys = TABLES[word].metadata[b"keys"].decode().split()
            page = tabulate_plain(word, tables[summary], snakemake.params.title, keys)
        write_csv(snakemake.output.csv, tables[summary])
        write_page(dict(snakemake.output.items()), page)
