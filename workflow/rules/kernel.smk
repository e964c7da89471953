# Attention with many demonstrations: kernel weights over their labels ([K] §5.1).


rule measure_kernel:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
        code=code_of("measure_kernel"),
    output:
        samples="results/kernel/{model}/{task}/{seed}/samples.parquet",
        prompts="results/kernel/{model}/{task}/{seed}/prompts.parquet",
        attention="results/kernel/{model}/{task}/{seed}/attention.parquet",
        predictions="results/kernel/{model}/{task}/{seed}/predictions.parquet",
        kernel="results/kernel/{model}/{task}/{seed}/kernel.parquet",
        segments="results/kernel/{model}/{task}/{seed}/segments.parquet",
        places="results/kernel/{model}/{task}/{seed}/places.parquet",
        similarity="results/kernel/{model}/{task}/{seed}/similarity.parquet",
        states="results/kernel/{model}/{task}/{seed}/states.parquet",
        counts="results/kernel/{model}/{task}/{seed}/counts.parquet",
    log:
        "logs/measure_kernel/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_kernel/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
    params:
        spec=config["kernel"],
        task=prompts_spec,
    message:
        "Measuring kernel weights of many demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_kernel.py"
