# What compression saves, and whether accuracy and speed improve together ([A] Table 3).

FIGURES += expand(
    "results/figures/timing/{model}.{kind}", model=config["models"], kind=["pdf", "png"]
)
TABLES += expand("results/tables/timing.{kind}", kind=["csv", "md", "html"])


rule measure_timing:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
        code=code_of("measure_timing"),
    output:
        "results/timing/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_timing/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_timing/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    # All cores, so that nothing else runs beside it; --report and some executors name none.
    threads: workflow.resource_settings.cores or config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=config["timing"],
    message:
        "Timing queries of {wildcards.task} with compressed demonstrations in {wildcards.model}"
    script:
        "../scripts/measure_timing.py"


rule draw_timing:
    input:
        timing=timings_of,
        retention="results/retention/{model}.parquet",
        code=code_of("draw_timing"),
    output:
        pdf="results/figures/timing/{model}.pdf",
        png=report(
            "results/figures/timing/{model}.png",
            **figure(
                "timing", ANCHORS, "Accuracy against time per query (Table 3 of [A])"
            ),
        ),
    log:
        "logs/draw_timing/{model}.log",
    benchmark:
        "results/benchmarks/draw_timing/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing accuracy against time per query in {wildcards.model}"
    script:
        "../scripts/draw_timing.py"


rule tabulate_timing:
    input:
        timing=expand(
            "results/timing/{model}/{task}/{seed}.parquet",
            model=config["models"],
            task=config["tasks"],
            seed=config["seeds"][0],
        ),
        retention=of_models("retention"),
        code=code_of("tabulate_timing"),
    output:
        csv="results/tables/timing.csv",
        md="results/tables/timing.md",
        html=report(
            "results/tables/timing.html",
            **table("timing", ANCHORS, "Accuracy and time per query (Table 3 of [A])"),
        ),
    log:
        "logs/tabulate_timing.log",
    benchmark:
        "results/benchmarks/tabulate_timing.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating accuracy and time per query of all models"
    script:
        "../scripts/tabulate_timing.py"
