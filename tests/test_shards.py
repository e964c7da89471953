"""Shards of large test sets: the same numbers however they are split, and gathered unchanged."""

import itertools
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import Checkout
from test_kernel import Decoder, each_alone, with_one_demonstration
from test_rebuild import ATTEND, COMPRESS, DIAGNOSE, ISOLATE, KERNEL, MEASURE, RETRIEVE, cells
from test_retrieval import cell_prompts, described, random_predictions
from transformers import PreTrainedModel

from anchorflow.attention import measure_attention
from anchorflow.batches import among
from anchorflow.compression import measure_compression
from anchorflow.errors import InputError
from anchorflow.gather import gather
from anchorflow.isolation import measure_isolation, settings_of
from anchorflow.kept_positions import METHODS
from anchorflow.kernel import SCHEMAS as KERNEL_TABLES
from anchorflow.kernel import correlations, measure_kernel
from anchorflow.retrieval import measure_retrieval
from anchorflow.saliency import measure_saliency
from anchorflow.shards import examples_of, gathered, is_first, shard_names
from anchorflow.tables import (
    EMBEDDINGS,
    SALIENCY,
    TABLES,
    frame_schema,
    keyed,
    read_table,
    write_frame,
)
from tiny_models import shared_prompts, tiny_model

Tables = dict[str, pl.DataFrame]

LENGTHS = [5, 17, 9, 12, 6, 21, 8]
APART = 5  # the one prompt that shares 29 tokens with the others, which share 30
PLACES = {1: ["0-7"], 3: ["0-3", "3-6", "6-7"], 7: [f"{k}-{k + 1}" for k in range(7)]}


def double_model() -> PreTrainedModel:
    """In double precision, so that what is left is not rounding but a dependence on the shards."""
    return tiny_model("llama").double()


def prompts_of_cell(demonstrations: str = "fixed") -> pl.DataFrame:
    prompts = shared_prompts(LENGTHS).with_columns(demonstrations=pl.lit(demonstrations))
    ids = prompts["token_ids"].to_list()
    ids[APART][29] += 1
    return prompts.with_columns(pl.Series("token_ids", ids))


CELL = prompts_of_cell()


def saliency(demonstrations: str, examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = prompts_of_cell(demonstrations)
    rows = measure_saliency(double_model(), prompts, batch_tokens, demonstrations, examples)
    return {"saliency": rows}


def attention(examples: list[int] | None, batch_tokens: int) -> Tables:
    measured = measure_attention(
        double_model(), Decoder(), prompts_of_cell(), batch_tokens, examples
    )
    return dict(zip(("attention", "predictions"), measured, strict=True))


def isolation(examples: list[int] | None, batch_tokens: int) -> Tables:
    settings = settings_of(["mask", "zero"], [1, 2], 5, 3, "tiny")
    rows = measure_isolation(double_model(), prompts_of_cell(), settings, 4, batch_tokens, examples)
    return {"isolation": rows}


def compression(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = pl.concat(
        [
            prompts_of_cell(),
            shared_prompts(LENGTHS[:4])[1:].with_columns(demonstrations=pl.lit("training")),
        ]
    )
    beta = torch.linspace(-0.5, 0.5, 3 * 4 * 3).reshape(3, 4, 3)
    methods = ["text_anchor", *(name for name in METHODS if name != "full")]
    spec = {"methods": methods, "shares": [0.2, 0.5], "draws": 3, "positions": "original"}
    fit = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0}
    rows = measure_compression(
        tiny_model("llama"), prompts, beta, spec, fit, batch_tokens, examples
    )
    return {"compression": rows}


def kernel(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = prompts_of_cell("kernel")
    measured = measure_kernel(
        double_model(),
        Decoder(),
        prompts,
        {1: with_one_demonstration(prompts)},
        each_alone(prompts),
        [-1, 0, 1],  # the last of them is the token in which one prompt differs
        batch_tokens,
        examples,
    )
    return {
        KERNEL_TABLES[name].metadata[b"table"].decode(): table
        for name, table in measured._asdict().items()
    }


def retrieval(examples: list[int] | None, batch_tokens: int) -> Tables:
    every = list(range(len(LENGTHS)))
    prompts, random = cell_prompts(LENGTHS), random_predictions(every)
    shown = described(prompts, every)
    rows = measure_retrieval(
        double_model(), among(prompts, examples), among(random, examples), shown, batch_tokens
    )
    return {"retrieval": rows}


STAGES: dict[str, Callable[[list[int] | None, int], Tables]] = {
    "saliency": partial(saliency, "per_example"),
    "saliency of fixed demonstrations": partial(saliency, "fixed"),
    "attention": attention,
    "isolation": isolation,
    "compression": compression,
    "kernel": kernel,
    "retrieval": retrieval,
}


@cache
def unsharded(stage: str) -> Tables:
    return STAGES[stage](None, 200)


def assert_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Floats within 1e-5 of a column's largest, everything else equal, rows in the same order."""
    assert found.schema == expected.schema
    for name, kind in expected.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else kind
        if inner not in (pl.Float32, pl.Float64):
            assert found[name].to_list() == expected[name].to_list(), name
            continue
        ours, theirs = (
            frame[name].explode().cast(pl.Float64).fill_null(np.nan).to_numpy()
            for frame in (found, expected)
        )
        largest = np.nanmax(np.abs(theirs), initial=0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * largest, err_msg=name)


def write(folder: Path, table: str, shards: Sequence[pl.DataFrame]) -> list[Path]:
    """Files of these rows, as jobs leave them."""
    paths = [folder / f"{place}.parquet" for place in range(len(shards))]
    for path, rows in zip(paths, shards, strict=True):
        write_frame(path, TABLES[table], rows, {"spec": 1})
    return paths


@pytest.mark.parametrize("shards", PLACES)
@pytest.mark.parametrize("stage", STAGES)
def test_gathered_shards_are_what_one_job_measures(stage: str, shards: int, tmp_path: Path) -> None:
    measured = [STAGES[stage](examples_of(shard, CELL), 200) for shard in PLACES[shards]]
    for table, expected in unsharded(stage).items():
        parts = [tables[table] for tables in measured]
        if table == "states":  # of the demonstrations, which all shards share
            for part in parts:
                assert_same(part, expected)
            continue
        path = tmp_path / f"{table}.parquet"
        gather(write(tmp_path / table, table, parts), path)
        assert_same(read_table(path, TABLES[table]), expected)


@pytest.mark.parametrize("stage", STAGES)
def test_the_batch_size_changes_nothing(stage: str) -> None:
    for table, rows in STAGES[stage](None, 60).items():
        assert_same(rows, unsharded(stage)[table])


@pytest.mark.parametrize("stage", STAGES)
def test_a_shard_beyond_the_last_test_text_has_tables_without_rows(stage: str) -> None:
    examples = examples_of("7-9", CELL)
    assert examples == []
    for table, rows in STAGES[stage](examples, 200).items():
        assert rows.schema == frame_schema(TABLES[table])
        assert len(rows) == (len(unsharded(stage)[table]) if table == "states" else 0)


def test_shards_cover_every_test_text_once() -> None:
    assert shard_names(7, 3) == PLACES[3]
    assert shard_names(7, 1) == PLACES[7]
    covered = [examples_of(shard, CELL) for shard in shard_names(7, 3)]
    assert covered == [[0, 1, 2], [3, 4, 5], [6]]
    assert [is_first(shard) for shard in (None, *shard_names(30, 10))] == [True, True, False, False]


def test_shards_are_gathered_where_one_job_would_write() -> None:
    cell = "{model}/{task}/{seed}"
    assert gathered(f"results/shards/kernel/{cell}/{{examples}}/states.parquet") == (
        f"results/kernel/{cell}/states.parquet"
    )


@pytest.mark.parametrize("size", [None, 7, 100])
def test_a_test_set_that_fits_one_job_has_no_shards(size: int | None) -> None:
    assert shard_names(7, size) == []
    assert examples_of(None, CELL) is None


def test_a_shard_has_the_same_test_texts_whatever_the_demonstrations() -> None:
    fixed = CELL.filter(pl.col("example") != 2).with_columns(pl.col("example") * 10)
    anew = fixed.reverse().with_columns(demonstrations=pl.lit("per_example"))
    training = CELL.with_columns(demonstrations=pl.lit("training"))
    assert examples_of("1-3", pl.concat([training, anew, fixed])) == [10, 30]


def flows(examples: range) -> pl.DataFrame:
    """Rows of the saliency table with values that do not compress."""
    rows = len(examples) * 3
    random = np.random.default_rng(examples.start)
    return keyed(
        pl.DataFrame(
            {
                "example": np.repeat(np.array(examples), 3),
                "layer": np.tile(np.arange(3), len(examples)),
                **{name: random.random(rows) for name in ("s_wp", "s_pq", "s_ww")},
            }
        ),
        {"model": "m", "task": "t", "seed": 0},
        SALIENCY,
    )


def split(rows: pl.DataFrame, *ends: int) -> list[pl.DataFrame]:
    """The rows up to each test text, and the rest."""
    return [
        rows.filter(pl.col("example").is_between(first, last, closed="left"))
        for first, last in itertools.pairwise([0, *ends, 10**9])
    ]


def test_a_gathered_file_s_bytes_do_not_depend_on_the_shards(tmp_path: Path) -> None:
    rows = flows(range(40))  # 3 layers
    written = set()
    for number, ends in enumerate(([], [3, 20], [1, 1, 13, 14, 30, 40])):
        path = tmp_path / f"{number}.parquet"
        shards = write(tmp_path / str(number), "saliency", split(rows, *ends))
        gather(shards, path, rows=32)
        assert read_table(path, SALIENCY).equals(rows)
        groups = pq.ParquetFile(path).metadata
        assert [groups.row_group(k).num_rows for k in range(4)] == [32, 32, 32, 24]
        written.add(path.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("examples", [0, 5, 400_000])
def test_a_gathered_file_is_the_one_that_one_job_writes(examples: int, tmp_path: Path) -> None:
    rows = flows(range(examples))  # 3 layers; more than a row group
    parts = split(rows, 1, 2, 300_000)
    gather(write(tmp_path, "saliency", parts), tmp_path / "gathered.parquet")
    write_frame(tmp_path / "one.parquet", SALIENCY, pl.concat([parts[0], rows[3:]]), {"spec": 1})
    assert (tmp_path / "gathered.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    assert read_table(tmp_path / "gathered.parquet", SALIENCY).equals(rows)


def test_wide_rows_make_smaller_groups_however_they_are_gathered(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"task": "t", "split": "train", "row": range(40_000), "embedding": [[0.5, 1.0]] * 40_000},
        schema=frame_schema(EMBEDDINGS),
    )
    whole = tmp_path / "whole.parquet"
    write_frame(whole, EMBEDDINGS, rows, {"spec": 1})
    parts = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path, part in zip(parts, (rows[:33_000], rows[33_000:]), strict=True):
        write_frame(path, EMBEDDINGS, part, {"spec": 1})
    gather(parts, tmp_path / "gathered.parquet")
    assert (tmp_path / "gathered.parquet").read_bytes() == whole.read_bytes()
    assert pq.ParquetFile(whole).num_row_groups == 2


def peak_of_gathering(shards: Sequence[Path], path: Path) -> int:
    """Bytes that Arrow holds at most."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        gather(shards, path, rows=4096)
    finally:
        pa.set_memory_pool(before)
    return pool.max_memory()


def test_gathering_four_times_the_shards_takes_no_more_memory(tmp_path: Path) -> None:
    size = 10_000
    shards = write(
        tmp_path, "saliency", split(flows(range(8 * size)), *range(size, 8 * size, size))
    )
    peak = peak_of_gathering(shards[:2], tmp_path / "two.parquet")
    assert 0 < peak_of_gathering(shards, tmp_path / "eight.parquet") < 1.2 * peak


def truncated(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[1].read_bytes()[:-200])


def overwritten(paths: list[Path]) -> None:
    """Its footer stays as it is, so that only reading the rows finds it."""
    content = bytearray(paths[1].read_bytes())
    content[4:400] = bytes(396)
    paths[1].write_bytes(content)


def missing(paths: list[Path]) -> None:
    paths[1].unlink()


def of_another_table(paths: list[Path]) -> None:
    write_frame(paths[1], TABLES["texts"], pl.DataFrame(schema=frame_schema(TABLES["texts"])), {})


def of_other_settings(paths: list[Path]) -> None:
    write_frame(paths[1], SALIENCY, read_table(paths[1], SALIENCY), {"spec": 2})


def repeated(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[0].read_bytes())


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (truncated, "damaged, or not a table that this workflow wrote"),
        (overwritten, "damaged, or not a table that this workflow wrote"),
        (missing, "the shard is missing; run the workflow to build it."),
        (of_another_table, "its columns are not those of the saliency table; delete it and run"),
        (of_other_settings, "its settings differ from those of .*0.parquet, so they can't be"),
        (repeated, "it holds test texts of the shards before it; delete it and run again"),
    ],
)
def test_a_shard_that_is_not_what_it_should_be_is_named(
    spoil: Callable[[list[Path]], None], sentence: str, tmp_path: Path
) -> None:
    shards = write(tmp_path, "saliency", split(flows(range(300)), 100, 200))
    spoil(shards)
    with pytest.raises(InputError, match=f"^{shards[1]}: {sentence}"):
        gather(shards, tmp_path / "whole.parquet")
    assert not (tmp_path / "whole.parquet").exists()


SHARDED = [ATTEND, ISOLATE, MEASURE, COMPRESS, RETRIEVE, KERNEL]


def gathering(planned: set[str]) -> set[str]:
    return {message for message in planned if message.startswith("Gathering")}


@pytest.mark.parametrize("size", [6, 100])
def test_without_shards_the_jobs_are_those_of_one_job_per_cell(
    copy_checkout: Callable[[], Checkout], size: int
) -> None:
    checkout = copy_checkout()
    planned = checkout.planned()
    assert cells([*SHARDED, DIAGNOSE], ["reviews", "news"], [0, 1]) <= planned
    assert not gathering(planned)
    checkout.config["compute"] = {"examples_per_shard": size}
    assert checkout.planned() == planned


def test_each_shard_is_a_job_and_each_table_is_gathered_once(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    whole = checkout.planned()
    checkout.config["compute"] = {"examples_per_shard": 4}
    planned = checkout.planned()
    split = cells(SHARDED, ["reviews", "news"], [0, 1])
    shards = {f"{job}, test texts {part}" for job in split for part in ("0-4", "4-6")}
    assert planned - gathering(planned) == whole - split | shards
    stages = ["attention", "saliency", "isolation", "compression", "retrieval", "kernel"]
    gather = "Gathering the shards of {stage} of {task} in tiny, seed {seed}"
    assert gathering(planned) == {
        gather.format(stage=stage, task=task, seed=seed)
        for stage in stages
        for task in ("reviews", "news")
        for seed in (0, 1)
    }


CELL_FILES = [
    *(f"results/{stage}/tiny/news/0.parquet" for stage in ("attention", "predictions")),
    *(f"results/{stage}/tiny/news/0.parquet" for stage in ("saliency", "isolation", "compression")),
    *(f"results/retrieval/tiny/news/0/{n}.parquet" for n in ("samples", "prompts", "predictions")),
    *(f"results/kernel/tiny/news/0/{n}.parquet" for n in ("samples", "prompts", *KERNEL_TABLES)),
]


def assert_correlations_are_of_what_is_kept(folder: Path) -> None:
    """Correlations are those of the attention and the similarities in the files beside them."""
    names = ("attention", "similarity", "kernel")
    attention, similarity, kernel = (pl.read_parquet(folder / f"{n}.parquet") for n in names)
    for (example,), rows in attention.group_by("example"):
        of_example = similarity.filter(example=example).sort("demonstration")
        similar = of_example["similarity"].to_numpy().astype(float)
        for kind in ("max", "label", "mean"):
            shown = np.array(rows.sort("layer", "head")[f"attention_{kind}"].to_list(), float)
            told = kernel.filter(example=example, weights=kind).sort("layer", "head")["correlation"]
            assert told.is_not_null().any()
            np.testing.assert_allclose(
                told.fill_null(np.nan).to_numpy(), correlations(shown, similar), rtol=1e-9
            )


def test_a_run_in_shards_leaves_the_files_of_a_run_without(finished_run: Checkout) -> None:
    folder = finished_run.folder

    def read(file: str) -> pl.DataFrame:
        return pl.read_parquet(folder / file)

    whole = {file: read(file) for file in CELL_FILES}
    schemas = {file: pq.read_schema(folder / file) for file in CELL_FILES}
    for file in CELL_FILES:
        (folder / file).unlink()
    finished_run.config["compute"] = {"examples_per_shard": 4}
    finished_run.snakemake("--cores", "2", *CELL_FILES)
    assert_correlations_are_of_what_is_kept(folder / "results/kernel/tiny/news/0")
    for file in CELL_FILES:
        # Similarities that differ by 6e-5 of themselves magnify rounding in their correlations.
        parts = [frame.drop("correlation", strict=False) for frame in (read(file), whole[file])]
        assert_same(*parts)
        assert pq.read_schema(folder / file).equals(schemas[file], check_metadata=True)
    assert not list((folder / "results/shards").rglob("*.parquet"))
    assert finished_run.planned(*CELL_FILES) == set()


def test_another_size_of_shards_rebuilds_nothing_that_was_touched(finished_run: Checkout) -> None:
    finished_run.config["compute"] = {"examples_per_shard": 4}
    assert gathering(finished_run.planned())
    before = (finished_run.folder / CELL_FILES[0]).read_bytes()
    finished_run.snakemake("--cores", "1", "--touch")
    assert finished_run.planned() == set()
    assert (finished_run.folder / CELL_FILES[0]).read_bytes() == before
    finished_run.edit("workflow/anchorflow/saliency.py", 'unit="example"', 'unit="prompt"')
    split = cells([MEASURE], ["reviews", "news"], [0, 1])
    shards = {f"{job}, test texts {part}" for job in split for part in ("0-4", "4-6")}
    assert shards <= finished_run.planned()
