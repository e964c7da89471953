# The configuration, and all rules in the order of the data.


report: "../report/workflow.rst"


# A configuration given on the command line replaces the default one. Otherwise Snakemake would merge
# the two and add the default's models and tasks to the user's.
if not names_a_configuration():

    configfile: default_configuration()


# GPUs are counted per machine: on a cluster every job has its own.
resource_scopes:
    gpu="local",


include: "common.smk"
include: "settings.smk"
include: "priorities.smk"
include: "inherited.smk"
include: "inputs.smk"
include: "measuring.smk"


# Rules of single analyses that are not like those of others.
for name in ANALYSES:
    if (WORKFLOW / f"rules/{name}.smk").is_file():

        include: f"{name}.smk"


include: "gather.smk"
include: "presenting.smk"
include: "comparison.smk"
include: "training.smk"
include: "summary.smk"
include: "manifest.smk"
