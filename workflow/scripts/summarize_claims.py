"""Summarize which of the papers' claims hold for one model, over tasks and seeds."""

from anchorflow.claims import summarize_claims
from anchorflow.logs import job_log
from anchorflow.tables import (
    ATTENTION,
    CLAIMS,
    COMPRESSION,
    DIAGNOSIS,
    ISOLATION,
    KERNEL,
    PREDICTIONS,
    RETRIEVAL,
    REWEIGHTING,
    SALIENCY,
    TIMING,
    read_settings,
    read_tables,
    write_frame,
)

READ = {
    "saliency": SALIENCY,
    "isolation": ISOLATION,
    "attention": ATTENTION,
    "predictions": PREDICTIONS,
    "reweighting": REWEIGHTING,
    "compression": COMPRESSION,
    "timing": TIMING,
    "diagnosis": DIAGNOSIS,
    "kernel": KERNEL,
    "kernel_predictions": PREDICTIONS,
    "retrieval": RETRIEVAL,
}

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics, spec = snakemake.params.statistics, snakemake.params.spec
        tables = {name: read_tables(snakemake.input[name], schema) for name, schema in READ.items()}
        summary = summarize_claims(tables, **spec, **statistics)
        measured = read_settings(snakemake.input.predictions[0])
        write_frame(snakemake.output[0], CLAIMS, summary, {**statistics, **spec, **measured})
