"""A training loop with one-logger's callbacks and context managers."""

import sys

from trainspan.onelogger import *  # noqa: F403
from trainspan.onelogger import OneLoggerConfig, TrainingTelemetryConfig, TrainingTelemetryProvider, timed_span

config = OneLoggerConfig(
    application_name="job",
    session_tag_or_fn=lambda: "tag",
    world_size_or_fn=2,
    telemetry_config=TrainingTelemetryConfig(
        perf_tag_or_fn="p", global_batch_size_or_fn=8, log_every_n_train_iterations=2, seq_length_or_fn=4, save_checkpoint_strategy="sync"
    ),
)
TrainingTelemetryProvider.instance().with_base_config(config).with_config_override({"custom_metadata": {"k": "v"}}).configure_provider()


@application()  # noqa: F405
def main():
    with model_init():  # noqa: F405
        pass
    with training_loop(train_iterations_start=10, train_iterations_target_or_fn=lambda: 100):  # noqa: F405
        for step in range(10, 15):
            with training_iteration():  # noqa: F405
                with timed_span("custom", {"a": 1}):
                    pass
            if step == 12:
                with checkpoint_save(global_step=13):  # noqa: F405
                    pass
        if "--die" in sys.argv:
            import os

            on_training_single_iteration_start()  # noqa: F405
            os.kill(os.getpid(), 9)
        with validation_loop():  # noqa: F405
            with validation_iteration():  # noqa: F405
                pass


main()
