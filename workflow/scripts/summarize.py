"""Summarize an analysis, which a param names, of one model over tasks and seeds."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.registry import load
from anchorflow.config.stages import folder_of, table_at
from anchorflow.random_draws import drawn_texts
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import agreed_settings, arguments_of, job, read_inputs, settings_of
from anchorflow.store.parquet import write_frame

if __name__ == "__main__":
    with job(snakemake):
        analysis, output = snakemake.params.analysis, snakemake.output[0]
        summarize = getattr(load(folder_of(analysis), "summarize"), f"summarize_{analysis}")
        tables = read_inputs(snakemake)
        if snakemake.params.examples:  # of all prompts, those that are measured
            tables["prompts"] = drawn_texts(tables["prompts"], snakemake.params.examples)
        summary = summarize(**tables, **arguments_of(snakemake.params))
        parts = settings_of(snakemake.params)
        settings = {**parts.pop("statistics"), **parts}
        for _, paths in snakemake.input.items():
            settings = {**agreed_settings(paths), **settings}
        write_frame(output, TABLES[table_at(output)], summary, settings)
