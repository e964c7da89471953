# Distances between the keys of label words, to predict confused labels ([A] §3.3, eq. 11, Fig. 6, App. J).


rule measure_diagnosis:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        "results/diagnosis/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_diagnosis/{model}/{task}/{seed}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_diagnosis"),
        spec=config["diagnosis"],
    message:
        "Measuring key distances of label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../../scripts/measure_diagnosis.py"
