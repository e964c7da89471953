# The same tasks with label words that mean nothing, or the opposite ([A] appendix).

if label_word_sets(config):
    FIGURES += expand(
        "results/figures/label_words/{model}.{kind}",
        model=config["models"],
        kind=["pdf", "png"],
    )
    TABLES += expand("results/tables/label_words.{kind}", kind=["csv", "md", "html"])


rule summarize_label_words:
    input:
        predictions=cells_with_words("predictions"),
        saliency=cells_with_words("saliency"),
        isolation=cells_with_words("isolation"),
        prompts=cells_with_words("prompts"),
        code=code_of("summarize_label_words"),
    output:
        "results/label_words/{model}.parquet",
    log:
        "logs/summarize_label_words/{model}.log",
    benchmark:
        "results/benchmarks/summarize_label_words/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
        spec=words_spec,
    message:
        "Summarizing what other label words change in {wildcards.model}"
    script:
        "../scripts/summarize_label_words.py"


rule draw_label_words:
    input:
        label_words="results/label_words/{model}.parquet",
        code=code_of("draw_label_words"),
    output:
        pdf="results/figures/label_words/{model}.pdf",
        png=report(
            "results/figures/label_words/{model}.png",
            **figure("label_words", INFORMATION, "Other label words"),
        ),
    log:
        "logs/draw_label_words/{model}.log",
    benchmark:
        "results/benchmarks/draw_label_words/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing what other label words change in {wildcards.model}"
    script:
        "../scripts/draw_label_words.py"


rule tabulate_label_words:
    input:
        label_words=expand(
            "results/label_words/{model}.parquet", model=config["models"]
        ),
        code=code_of("tabulate_label_words"),
    output:
        csv="results/tables/label_words.csv",
        md="results/tables/label_words.md",
        html=report(
            "results/tables/label_words.html",
            **table("label_words", INFORMATION, "Other label words"),
        ),
    log:
        "logs/tabulate_label_words.log",
    benchmark:
        "results/benchmarks/tabulate_label_words.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating what other label words change in all models"
    script:
        "../scripts/tabulate_label_words.py"
