# Test texts and their demonstrations, drawn per task and seed.


use rule prepare as prepare_samples with:
    input:
        texts="results/texts/{task}.parquet",
    output:
        "results/samples/{task}/{seed}.parquet",
    log:
        "logs/prepare_samples/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: PRIORITIES["prepare_samples"]
    params:
        **script_of("prepare_samples"),
        spec=samples_spec,
    message:
        "Drawing test texts and demonstrations of {wildcards.task}, seed {wildcards.seed}"
