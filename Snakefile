# anchorflow: how a language model learns from the examples in its prompt.
#
# Every stage writes results/{stage}/{model}/{task}/{seed}.parquet; stages that need no model leave
# {model} out, summaries leave {task} and {seed} out. A stage's word names its rule file here, its
# module in workflow/anchorflow, its folder in results and its test.
#
#   texts ─► samples ─► prompts ─┬─► attention ─┬─► deep ─────────► figures, tables
#   tokenizers ─────────┘   │    │  predictions ─┴─► accuracy ─────► tables
#   models ─────────────────┘    ├─► isolation ────► loyalty ──────► figures, tables
#                                ├─► isolation, saliency, predictions ► label_words ► figures, tables
#                                ├─► diagnosis, predictions ► confusion ► figures, tables
#                                ├─► embeddings of texts ► retrieval ► neighbors ► figures, tables
#                                ├─► kernel ─┬─► heads, landing ──────────────────► figures, tables
#                                │           ├─► embeddings of texts ► regressors ► figures, tables
#                                │           └─► probes ► decoding ───────────────► figures, tables
#                                ├─► saliency ─────► flow ─────────► figures, tables
#                                ├─► token_saliency, shown_prompts ► flow_page
#                                ├─► reweighting ─┬────────────────► figures
#                                │                ├► performance ──► tables
#                                │                └► compression ──► retention ─┬─► figures, tables
#                                └─► timing ────────────────────────────────────┴─► figures, tables
#   shards of attention, saliency, isolation, compression, retrieval or kernel, if any ─► gather
#   all that is measured ─► claims ─► figures, tables; of several models ─► comparison ─► figures
#   all artifacts ─► manifest

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


# A configuration given on the command line takes the place of the default one; Snakemake would
# merge the two otherwise, and add the default's models and tasks to the user's.
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


# GPUs are counted per machine: on a cluster every job has its own.
resource_scopes:
    gpu="local",


include: "workflow/rules/common.smk"
include: "workflow/rules/settings.smk"
include: "workflow/rules/texts.smk"
include: "workflow/rules/samples.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/prompts.smk"
include: "workflow/rules/attention.smk"
include: "workflow/rules/saliency.smk"
include: "workflow/rules/isolation.smk"
include: "workflow/rules/reweighting.smk"
include: "workflow/rules/compression.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/embeddings.smk"
include: "workflow/rules/retrieval.smk"
include: "workflow/rules/flow.smk"
include: "workflow/rules/flow_page.smk"
include: "workflow/rules/loyalty.smk"
include: "workflow/rules/deep.smk"
include: "workflow/rules/label_words.smk"
include: "workflow/rules/performance.smk"
include: "workflow/rules/diagnosis.smk"
include: "workflow/rules/kernel.smk"
include: "workflow/rules/heads.smk"
include: "workflow/rules/landing.smk"
include: "workflow/rules/regressors.smk"
include: "workflow/rules/probes.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/comparison.smk"
include: "workflow/rules/accuracy.smk"
include: "workflow/rules/gather.smk"
include: "workflow/rules/manifest.smk"


rule all:
    default_target: True
    input:
        FIGURES,
        TABLES,
        "results/manifest.json",


rule figures:
    input:
        FIGURES,


rule tables:
    input:
        TABLES,
