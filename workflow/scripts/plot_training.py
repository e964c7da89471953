"""Plot the papers' claims over the checkpoints of a training, and write the table behind it."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.claims.plot_training import over_training, plot_training
from anchorflow.claims.schema import TRAINING
from anchorflow.store.job import agreed_settings, arguments_of, confidence_of, job, read_inputs
from anchorflow.store.parquet import write_frame

if __name__ == "__main__":
    with job(snakemake):
        (claims,) = read_inputs(snakemake).values()
        found = over_training(claims, snakemake.wildcards.model, snakemake.params.checkpoints)
        paths = dict(snakemake.output.items())
        write_frame(paths.pop("table"), TRAINING, found, agreed_settings(snakemake.input.claims))
        confidence = confidence_of(snakemake.input)
        plot_training(found, **arguments_of(snakemake.params), confidence=confidence, paths=paths)
