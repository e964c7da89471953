# The labeled texts of each task, from a built-in corpus, local files, or the Hub.


use rule prepare as prepare_texts with:
    input:
        unpack(text_files),
    output:
        "results/texts/{task}.parquet",
    log:
        "logs/prepare_texts/{task}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: PRIORITIES["prepare_texts"]
    params:
        **script_of("prepare_texts"),
        spec=texts_spec,
    message:
        "Reading and checking the texts of {wildcards.task}"
