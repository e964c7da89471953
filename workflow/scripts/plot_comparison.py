"""Plot each of the papers' claims on all models, with the compared quantities over depth."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.claims.plot_comparison import plot_comparison
from anchorflow.store.job import arguments_of, confidence_of, job, read_inputs
from anchorflow.store.replacing import replacing

if __name__ == "__main__":
    with job(snakemake), replacing(snakemake.output[0]) as folder:
        folder.mkdir()
        tables = read_inputs(snakemake)
        plot_comparison(
            tables.pop("claims"),
            tables,
            **arguments_of(snakemake.params),
            confidence=confidence_of(snakemake.input),
            folder=folder,
        )
