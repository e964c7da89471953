# Shards of large test sets, combined into the files that a single job would write: a rule for every
# stage of SHARDED in workflow/anchorflow/config/stages.py, if there are shards. They are
#   rule gather_attention, rule gather_saliency, rule gather_isolation
#   rule gather_knockout, rule gather_faithfulness, rule gather_cutoff
#   rule gather_transplant, rule gather_compression, rule gather_retrieval
#   rule gather_perturbations, rule gather_kernel, rule gather_orders

for stage in SHARDED if SHARDS else ():
    shards = list(getattr(rules, f"measure_{stage}").output)

    rule:
        name:
            f"gather_{stage}"
        input:
            shards=expand(shards, examples=SHARDS, allow_missing=True),
        output:
            [gathered(path) for path in shards],
        log:
            f"logs/gather_{stage}/{{model}}/{{task}}/{{seed}}.log",
        conda:
            "../envs/anchorflow.yaml"
        threads: 1
        message:
            f"Gathering the shards of {stage}"
            " of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        script:
            "../scripts/gather.py"
