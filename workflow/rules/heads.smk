# Scores of every attention head; run only if heads.scores is not empty.


use rule measure as measure_heads with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        "results/heads/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_heads/{model}/{task}/{seed}.log",
    params:
        **analysis("heads"),
        spec=section("heads"),
    message:
        "Scoring the heads of {wildcards.model} for {wildcards.task}, seed {wildcards.seed}"
