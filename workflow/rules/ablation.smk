# Predictions without the heads of the highest scores; run only if ablation.scores is not empty.


use rule measure as measure_ablation with:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        heads="results/heads/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        "results/ablation/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_ablation/{model}/{task}/{seed}.log",
    params:
        **analysis("ablation"),
        spec=section("ablation"),
    message:
        "Taking heads of {wildcards.model} away for {wildcards.task}, seed {wildcards.seed}"
