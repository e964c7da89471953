"""Plot one model's summary of an analysis, which a param names."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from inspect import signature

from anchorflow.config.registry import load
from anchorflow.config.stages import PRESENTED, folder_of
from anchorflow.present.style import of_tasks
from anchorflow.store.job import arguments_of, confidence_of, job, read_inputs

if __name__ == "__main__":
    with job(snakemake):
        analysis = snakemake.params.analysis
        plot = getattr(load(folder_of(analysis), "plot"), f"plot_{analysis}")
        known = {"confidence": confidence_of(snakemake.input)}
        settings = arguments_of(snakemake.params)
        inputs = read_inputs(snakemake)
        twins = PRESENTED[analysis].figure.untrained  # averaged by the figure, over all tasks
        plot(
            **{
                name: rows if name in twins else of_tasks(rows, settings["style"])
                for name, rows in inputs.items()
            },
            **settings,
            **{key: value for key, value in known.items() if key in signature(plot).parameters},
            paths=dict(snakemake.output.items()),
        )
