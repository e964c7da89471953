# What flows between the tokens of single prompts, as pages ([A] Fig. 1); of each task's first seed.

if config["flow_page"]["examples"]:
    FIGURES += expand(
        "results/flow_page/{model}/{task}/{seed}",
        model=config["models"],
        task=config["tasks"],
        seed=config["seeds"][0],
    )
    FIGURES += expand("results/flow_page/{model}/index.html", model=config["models"])


rule measure_flow_page:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
        code=code_of("measure_flow_page"),
    output:
        saliency="results/token_saliency/{model}/{task}/{seed}.parquet",
        shown="results/shown_prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_flow_page/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_flow_page/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=shown_spec,
    message:
        "Measuring what flows between the tokens of single prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_flow_page.py"


rule draw_flow_page:
    input:
        saliency="results/token_saliency/{model}/{task}/{seed}.parquet",
        shown="results/shown_prompts/{model}/{task}/{seed}.parquet",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        code=code_of("draw_flow_page"),
    output:
        directory("results/flow_page/{model}/{task}/{seed}"),
    log:
        "logs/draw_flow_page/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/draw_flow_page/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=page_spec,
    message:
        "Drawing what flows between the tokens of single prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/draw_flow_page.py"


rule index_flow_pages:
    input:
        shown=shown_of("shown_prompts/{model}/{task}/{seed}.parquet"),
        pages=shown_of("flow_page/{model}/{task}/{seed}"),
        code=code_of("index_flow_pages"),
    output:
        "results/flow_page/{model}/index.html",
    log:
        "logs/index_flow_pages/{model}.log",
    benchmark:
        "results/benchmarks/index_flow_pages/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        labels=label_words,
    message:
        "Listing the information-flow pages of {wildcards.model}"
    script:
        "../scripts/index_flow_pages.py"
