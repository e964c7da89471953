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
        **prepared("prepare/texts"),
        spec=texts_spec,
    message:
        "Reading and checking the texts of {wildcards.task}"


# Test texts and their demonstrations, drawn per task and seed.


use rule prepare as prepare_samples with:
    input:
        texts="results/texts/{task}.parquet",
    output:
        "results/samples/{task}/{seed}.parquet",
    log:
        "logs/prepare_samples/{task}/{seed}.log",
    wildcard_constraints:
        task=NAME,  # the same for all label words
    priority: PRIORITIES["prepare_samples"]
    params:
        **prepared("prepare/samples"),
        spec=samples_spec,
    message:
        "Drawing test texts and demonstrations of {wildcards.task}, seed {wildcards.seed}"


# Each model's tokenizer and architecture come first, so that prompts are checked before weights are
# loaded; then its weights, and those of its untrained twins.


use rule prepare as prepare_tokenizer with:
    input:
        files=model_files,
    output:
        directory("results/tokenizers/{model}"),
    log:
        "logs/prepare_tokenizer/{model}.log",
    wildcard_constraints:
        model=NAME,  # twins share it
    priority: PRIORITIES["prepare_tokenizer"]
    params:
        **prepared("prepare/tokenizer"),
        spec=source_spec,
    message:
        "Resolving the tokenizer and architecture of {wildcards.model}"


use rule prepare as prepare_model with:
    input:
        tokenizer="results/tokenizers/{model}",
        files=model_files,
    output:
        directory("results/models/{model}"),
    log:
        "logs/prepare_model/{model}.log",
    wildcard_constraints:
        model=NAME,  # no twin
    priority: PRIORITIES["prepare_model"]
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **prepared("prepare/model"),
        spec=weights_spec,
    message:
        "Resolving the weights of {wildcards.model} and comparing attention with eager attention"


use rule prepare as prepare_untrained with:
    input:
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
    output:
        directory("results/models/{model}+{kind}-{draw}"),
    log:
        "logs/prepare_untrained/{model}+{kind}-{draw}.log",
    wildcard_constraints:
        model=NAME,
        kind=KIND,
        draw="[0-9]+",
    priority: PRIORITIES["prepare_untrained"]
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **prepared("prepare/untrained"),
    message:
        "Making an untrained twin of {wildcards.model}: {wildcards.kind}, draw {wildcards.draw}"


# Prompts as token ids with the positions of their parts, per model, task, and seed.


use rule prepare as prepare_prompts with:
    input:
        samples=samples_of,
        tokenizer=tokenizer_of,
    output:
        "results/prompts/{model}/{task}/{seed}.parquet",
    log:
        "logs/prepare_prompts/{model}/{task}/{seed}.log",
    priority: PRIORITIES["prepare_prompts"]
    params:
        **prepared("prepare/prompts"),
        spec=prompts_spec,
    message:
        "Building the prompts of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"


# Sentence embeddings of the texts of each task, without a language model. Those of further encoders are
# used only for kernel regression.

if config["encoder"]["further"]:
    FINAL_TABLES += expand(
        "results/further_embeddings/{task}.parquet", task=config["tasks"]
    )


use rule encode as prepare_embeddings with:
    input:
        texts="results/texts/{task}.parquet",
        encoder=encoder_files,
    output:
        "results/embeddings/{task}.parquet",
    log:
        "logs/prepare_embeddings/{task}.log",
    priority: PRIORITIES["prepare_embeddings"]
    params:
        **prepared("prepare/embeddings"),
        spec=encoder_spec,
    message:
        "Embedding the texts of {wildcards.task}"


use rule encode as prepare_further_embeddings with:
    input:
        texts="results/texts/{task}.parquet",
        encoder=further_encoder_files,
    output:
        "results/further_embeddings/{task}.parquet",
    log:
        "logs/prepare_further_embeddings/{task}.log",
    priority: PRIORITIES["prepare_further_embeddings"]
    params:
        **prepared("prepare/embeddings"),
        spec=further_encoders_spec,
    message:
        "Embedding the texts of {wildcards.task} with further encoders"
