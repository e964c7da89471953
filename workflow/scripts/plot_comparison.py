"""Plot each of the papers' claims on all models, with the compared quantities over depth."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.plot.comparison import plot_comparison
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import configuration_of, job
from anchorflow.store.parquet import read_settings, read_tables
from anchorflow.store.replacing import replacing

if __name__ == "__main__":
    with job(snakemake), replacing(snakemake.output[0]) as folder:
        folder.mkdir()
        tables = {name: read_tables(paths, TABLES[name]) for name, paths in snakemake.input.items()}
        plot_comparison(
            tables.pop("claims"),
            tables,
            **configuration_of(snakemake.params),
            confidence=read_settings(snakemake.input.claims[0])["confidence"],
            folder=folder,
        )
