"""Jobs that go on with the weights of earlier ones, as they do on a GPU."""

from anchorflow.config.import_path import KEEP
from anchorflow.config.stages import MEASURED
from checkout import Checkout


def test_they_write_the_same_bytes_and_open_each_model_once(finished_run: Checkout) -> None:
    folder, models = finished_run.folder, ("tiny", "tiny+shuffled-0")
    written = {}
    for stage in MEASURED:
        for model in models if stage.repeatable else ():
            for file in (folder / "results" / stage.name / model).rglob("*.parquet"):
                written[str(file.relative_to(folder))] = file.read_bytes()
                file.unlink()
    for log in folder.glob("logs/measure_*/**/*.log"):
        log.unlink()
    finished_run.snakemake("--cores", "1", *written, **{KEEP: "1"})
    for file, before in written.items():
        assert (folder / file).read_bytes() == before, file
    logs = [log.read_text(encoding="utf-8") for log in folder.glob("logs/measure_*/**/*.log")]
    with_model = [log for log in logs if "Memory: " in log]
    assert len(with_model) > 20
    found_open = sum("Weights: open already" in log for log in with_model)
    assert found_open == len(with_model) - len(models)
