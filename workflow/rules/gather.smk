# Shards of large test sets, combined into the files that a single job would write: a rule
# gather_{analysis} for every analysis that is measured in shards.

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
        params:
            **code_of("gather"),
        message:
            f"Gathering the shards of {stage}"
            " of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        script:
            "../scripts/gather.py"
