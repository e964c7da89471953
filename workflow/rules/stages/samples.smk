# Test texts and their demonstrations, drawn per task and seed.


rule prepare_samples:
    input:
        texts="results/texts/{task}.parquet",
    output:
        "results/samples/{task}/{seed}.parquet",
    log:
        "logs/prepare_samples/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: 20
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("prepare_samples"),
        spec=samples_spec,
    message:
        "Drawing test texts and demonstrations of {wildcards.task}, seed {wildcards.seed}"
    script:
        "../../scripts/prepare_samples.py"
