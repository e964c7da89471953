# Pages of the information flow between tokens of single prompts, for the first seed ([A] Fig. 1).

if config["flow_page"]["examples"]:
    FIGURES += expand(
        "results/flow_page/{model}/{task}/{seed}",
        model=config["models"],
        task=config["tasks"],
        seed=config["seeds"][0],
    )
    FIGURES += expand("results/flow_page/{model}/index.html", model=config["models"])


use rule measure as measure_token_saliency with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        saliency="results/token_saliency/{model}/{task}/{seed}.parquet",
        shown="results/shown_prompts/{model}/{task}/{seed}.parquet",
        cuts="results/shown_knockouts/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_token_saliency/{model}/{task}/{seed}.log",
    params:
        **script_of("measure_token_saliency"),
        spec=shown_spec,
    message:
        "Measuring saliency between tokens of single prompts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"


use rule prepare as plot_flow_page with:
    input:
        saliency="results/token_saliency/{model}/{task}/{seed}.parquet",
        shown="results/shown_prompts/{model}/{task}/{seed}.parquet",
        cuts="results/shown_knockouts/{model}/{task}/{seed}.parquet",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
    output:
        directory("results/flow_page/{model}/{task}/{seed}"),
    log:
        "logs/plot_flow_page/{model}/{task}/{seed}.log",
    group:
        "presenting"
    params:
        **script_of("plot_flow_page"),
        spec=page_spec,
    message:
        "Plotting information-flow pages of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"


use rule prepare as plot_flow_page_index with:
    input:
        shown=files_of("shown_prompts"),
        pages=lambda wildcards: expand(
            "results/flow_page/{model}/{task}/{seed}",
            model=wildcards.model,
            task=config["tasks"],
            seed=config["seeds"][0],
        ),
    output:
        "results/flow_page/{model}/index.html",
    log:
        "logs/plot_flow_page_index/{model}.log",
    group:
        "presenting"
    params:
        **script_of("plot_flow_page_index"),
        labels=SLICES["labels"]["labels"],
    message:
        "Listing the information-flow pages of {wildcards.model}"
