# Attention from the target position to the demonstrations, and the predictions ([A] §2.3, [K] §5).


rule measure_attention:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
        code=code_of("measure_attention"),
    output:
        attention="results/attention/{model}/{task}/{seed}.parquet",
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_attention/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_attention/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
    message:
        "Measuring attention to the demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_attention.py"
