# What a program that is checked strictly may write. It is checked, not run.
from typing import Any, Iterable

import trainspan as ts
from trainspan import onelogger as log
from trainspan.dftracer import DFTracerAI, ai, dft_fn, dftracer


@ai.data.preprocess
def augment(batch: list[float]) -> list[float]:
    return batch


@ai.data.item(epoch=1)
def item(index: int) -> float:
    return float(index)


io = dft_fn("io")


@io.log
def load(path: str) -> list[float]:
    return [1.0]


def train(loader: Iterable[list[float]]) -> float:
    total = 0.0
    for batch in ai.dataloader.fetch.iter(loader):
        with ai.compute.forward:
            total += sum(augment(batch))
        ai.compute.backward.start()
        ai.compute.backward.stop()
    node: DFTracerAI = ai.compute.step.derive("clip")
    with node, dft_fn("io", "write") as span:
        span.update(step=1, args={"bytes": 1})
    return total


@ts.step
async def one(x: float) -> float:
    async with ts.span("forward", tokens=4) as span:
        span.add(bytes=1)
    return x


class Callback:
    wait: ts.Span = ts.span("data")

    def begin(self) -> None:
        self.wait.start()

    def end(self) -> None:
        self.wait.stop()
        ts.metric(loss=0.5)


def main() -> None:
    print(ts.load("train.3").metrics, ts.load("train.3", command="trainspan").to_pandas("spans"))
    trace: dftracer = dftracer.initialize_log("trace.pfw")
    provider = log.TrainingTelemetryProvider.instance()
    provider.with_base_config(log.OneLoggerConfig(application_name="llm", world_size_or_fn=8)).configure_provider()
    log.on_app_start()
    log.on_train_start(train_iterations_start=0, train_iterations_target_or_fn=lambda: 10)
    with log.training_iteration():
        result: Any = train([load("a")])
        print(result, item(1))
    with log.checkpoint_save(global_step=1):
        pass
    log.on_train_end()
    log.on_app_end()
    trace.finalize()
