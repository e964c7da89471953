# Which texts are tested and which demonstrations they are shown, per task and seed.


rule draw_samples:
    input:
        texts="results/texts/{task}.parquet",
        code=code_of("draw_samples"),
    output:
        "results/samples/{task}/{seed}.parquet",
    log:
        "logs/draw_samples/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/draw_samples/{task}/{seed}.tsv"
    wildcard_constraints:
        task=NAME,  # whatever the label words
    priority: 20
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=samples_spec,
    message:
        "Drawing test texts and demonstrations of {wildcards.task}, seed {wildcards.seed}"
    script:
        "../scripts/draw_samples.py"
