# The labeled texts of each task, from a built-in corpus, local files, or the Hub.


rule prepare_texts:
    input:
        unpack(text_files),
    output:
        "results/texts/{task}.parquet",
    log:
        "logs/prepare_texts/{task}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: 20
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("prepare_texts"),
        spec=texts_spec,
    message:
        "Reading and checking the texts of {wildcards.task}"
    script:
        "../../scripts/prepare_texts.py"
