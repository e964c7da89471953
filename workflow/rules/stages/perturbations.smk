# Predictions for perturbed test texts ([K] Table 1); nothing of this is run unless
# perturbations.kinds lists some.


rule prepare_rare_words:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
    output:
        "results/rare_words/{task}.parquet",
    log:
        "logs/prepare_rare_words/{task}.log",
    priority: 5
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_without_model,
    params:
        **code_of("prepare_rare_words"),
        spec=encoder_spec,
    message:
        "Choosing rarer words for the test texts of {wildcards.task}"
    script:
        "../../scripts/prepare_rare_words.py"


rule prepare_perturbations:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        rare_words=rare_words_of,
    output:
        "results/perturbed_texts/{task}/{seed}.parquet",
    log:
        "logs/prepare_perturbations/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: 10
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("prepare_perturbations"),
        spec=perturbations_spec,
    message:
        "Perturbing the test texts of {wildcards.task}, seed {wildcards.seed}"
    script:
        "../../scripts/prepare_perturbations.py"


rule measure_perturbations:
    input:
        samples="results/samples/{task}/{seed}.parquet",
        texts="results/perturbed_texts/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        prompts=measured("perturbations", "prompts"),
        predictions=measured("perturbations", "predictions"),
    log:
        f"logs/measure_perturbations/{PART}.log",
    conda:
        "../../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("measure_perturbations"),
        task=prompts_spec,
        scoring=scoring_spec,
    message:
        "Predicting perturbed texts of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../../scripts/measure_perturbations.py"
