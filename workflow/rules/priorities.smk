# Which jobs start first; those of all other rules have priority 0.


PRIORITIES = {
    # Mistakes in files, tasks, and label words are reported before any weights are opened.
    "prepare_tokenizer": 20,
    "prepare_texts": 20,
    "prepare_samples": 20,
    # The first figure is made as early as possible, before all other measurements.
    # It needs no saliency with other label words.
    "measure_flow": lambda wildcards: (
        15 if task_of(wildcards.task) == wildcards.task else 2
    ),
    "summarize_flow": 15,
    "plot_flow": 15,
    # What measurements wait for; the weights first, which take longest.
    "prepare_model": 12,
    "prepare_untrained": 12,
    # The first figure needs no prompts with shuffled labels or other label words.
    "prepare_prompts": lambda wildcards: (
        10 if task_of(wildcards.task) == wildcards.task else 4
    ),
    "prepare_perturbations": 10,
    # During the conversion of weights, before jobs that run a model.
    "prepare_embeddings": 5,
    "prepare_further_embeddings": 5,
    "prepare_rare_words": 5,
    "measure_theory": 5,
    "summarize_theory": 5,
    "plot_theory": 5,
    # The longest jobs first, so that no core idles at the end.
    "measure_isolation": 3,
    "measure_compression": 2,
    "measure_reweighting": 1,  # which compression waits for
}
