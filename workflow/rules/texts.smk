# The labelled texts of each task, from a built-in corpus, local files or the Hub.


rule read_texts:
    input:
        unpack(text_files),
        code=code_of("read_texts"),
    output:
        "results/texts/{task}.parquet",
    log:
        "logs/read_texts/{task}.log",
    benchmark:
        "results/benchmarks/read_texts/{task}.tsv"
    wildcard_constraints:
        task=NAME,  # whatever the label words
    priority: 20
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=texts_spec,
    message:
        "Reading and checking the texts of {wildcards.task}"
    script:
        "../scripts/read_texts.py"
