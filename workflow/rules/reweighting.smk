# Predictions with re-weighted attention to label words, and without ([A] §3.1).

FIGURES += expand(
    "results/figures/reweighting/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)


rule measure_reweighting:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        tokenizer="results/tokenizers/{model}",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
        code=code_of("measure_reweighting"),
    output:
        beta="results/reweighting/{model}/{task}/{seed}/beta.parquet",
        descent="results/reweighting/{model}/{task}/{seed}/descent.parquet",
        learning_rates="results/reweighting/{model}/{task}/{seed}/learning_rates.parquet",
        predictions="results/reweighting/{model}/{task}/{seed}/predictions.parquet",
        prompts="results/reweighting/{model}/{task}/{seed}/prompts.parquet",
    log:
        "logs/measure_reweighting/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_reweighting/{model}/{task}/{seed}.tsv"
    priority: 1
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=config["reweighting"],
        task=reweighting_task,
    message:
        "Re-weighting attention to label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_reweighting.py"


rule draw_reweighting:
    input:
        beta=cells_of("reweighting", "beta"),
        code=code_of("draw_reweighting"),
    output:
        pdf="results/figures/reweighting/{model}.pdf",
        png=report(
            "results/figures/reweighting/{model}.png",
            **figure("reweighting", ANCHORS, "Fitted weights by layer and head"),
        ),
    log:
        "logs/draw_reweighting/{model}.log",
    benchmark:
        "results/benchmarks/draw_reweighting/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing the weights of attention to label words in {wildcards.model}"
    script:
        "../scripts/draw_reweighting.py"
