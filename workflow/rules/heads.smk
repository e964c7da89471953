# The atlas of every attention head's scores; written only if heads.scores is not empty.

if config["heads"]["scores"]:
    FINAL_TABLES += expand("results/atlas/{model}.json", model=config["models"])


use rule prepare as write_atlas with:
    input:
        summary="results/summaries/heads/{model}.parquet",
        model="results/models/{model}",
    output:
        "results/atlas/{model}.json",
    log:
        "logs/write_atlas/{model}.log",
    group:
        "presenting"
    params:
        **script_of("write_atlas", "analyses/heads/atlas.py"),
        prompts={
            name: {key: task[key] for key in ("template", "labels")}
            for name, task in config["tasks"].items()
        },
        confidence=config["statistics"]["confidence"],
    message:
        "Writing the atlas of the heads of {wildcards.model}"
