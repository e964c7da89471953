# Pages that show the information flow between the tokens of single prompts, for the first seed ([A]
# Fig. 1).

if config["flow_page"]["examples"]:
    FINAL_FIGURES += expand(
        "results/figures/flow_page/{model}/{task}/{seed}",
        model=config["models"],
        task=config["tasks"],
        seed=config["seeds"][0],
    )
    FINAL_FIGURES += expand(
        "results/figures/flow_page/{model}/index.html", model=config["models"]
    )


use rule prepare as plot_flow_page with:
    input:
        saliency="results/flow_page/{model}/{task}/{seed}/saliency.parquet",
        prompts="results/flow_page/{model}/{task}/{seed}/prompts.parquet",
        knockouts="results/flow_page/{model}/{task}/{seed}/knockouts.parquet",
        heads="results/flow_page/{model}/{task}/{seed}/heads.parquet",
        whole="results/prompts/{model}/{task}/{seed}.parquet",
    output:
        directory("results/figures/flow_page/{model}/{task}/{seed}"),
    log:
        "logs/plot_flow_page/{model}/{task}/{seed}.log",
    group:
        "presenting"
    params:
        **script_of("plot_flow_page"),
        spec=lambda wildcards: {
            "labels": task_settings(wildcards)["labels"],
            "colors": config["figures"]["colors"],
        },
    message:
        "Plotting information-flow pages of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"


use rule prepare as plot_flow_page_index with:
    input:
        prompts=files_of("flow_page/prompts"),
        pages=lambda wildcards: expand(
            "results/figures/flow_page/{model}/{task}/{seed}",
            model=wildcards.model,
            task=config["tasks"],
            seed=config["seeds"][0],
        ),
    output:
        "results/figures/flow_page/{model}/index.html",
    log:
        "logs/plot_flow_page_index/{model}.log",
    group:
        "presenting"
    params:
        **script_of("plot_flow_page_index"),
        labels={name: task["labels"] for name, task in config["tasks"].items()},
    message:
        "Listing the information-flow pages of {wildcards.model}"
