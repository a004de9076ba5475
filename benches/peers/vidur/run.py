"""Vidur on a request list of `listed write`: the list and the servers of ours, step times included.

    run.py LIST SERVERS REPLICAS

Needs Vidur's source in PYTHONPATH, and pandas, numpy, scikit-learn, fasteners, ddsketch, plotly_express and wandb.
The profile-driven step time predictor is replaced by the formula of SERVERS, so that all programs simulate the same
steps and none pays for a regression. Prints one line: requests, CPU seconds, output tokens, simulated end in s, steps,
runs.
"""

import json
import os
import sys
import tempfile
import time

import pandas as pd
from vidur import config as settings
from vidur.entities import ExecutionTime
from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
from vidur.simulator import Simulator
from vidur.types import ExecutionTimePredictorType


def step_times(servers):
    """A predictor class with the step time of the servers."""

    class Steps:
        batches = 0

        def __init__(self, *_args, **_named):
            pass

        def get_execution_time(self, batch, _stage):
            type(self).batches += 1
            rows = sum(request.is_prefill_complete for request in batch.requests)
            prefill = sum(batch.num_tokens) - rows
            step_ms = servers["step_ms"] + rows * servers["decode_row_us"] * 1e-3
            step_ms += prefill * servers["prefill_token_us"] * 1e-3
            return ExecutionTime(1, *[0.0] * 14, step_ms, *[0.0] * 4)

    return Steps


def converted(list_path, folder):
    """The list with the columns that Vidur reads."""
    rows = pd.read_csv(list_path, parse_dates=["TIMESTAMP"])
    since = (rows["TIMESTAMP"] - rows["TIMESTAMP"][0]).dt.total_seconds()
    path = os.path.join(folder, "list.csv")
    pd.DataFrame(
        {
            "arrived_at": since,
            "num_prefill_tokens": rows["ContextTokens"],
            "num_decode_tokens": rows["GeneratedTokens"],
        }
    ).to_csv(path, index=False)
    return path


def simulation(trace, servers, replicas, folder):
    """Round robin over replicas with chunked prefill; request records are made and no plots or traces."""
    scheduler = settings.SarathiSchedulerConfig(
        chunk_size=servers["max_num_batched_tokens"],
        batch_size_cap=servers["max_num_seqs"],
        block_size=servers["block_tokens"],
        num_blocks=servers["blocks"],
        watermark_blocks_fraction=0.0,
    )
    return settings.SimulationConfig(
        log_level="error",
        cluster_config=settings.ClusterConfig(
            num_replicas=replicas,
            replica_config=settings.ReplicaConfig(model_name="meta-llama/Meta-Llama-3-8B"),
            global_scheduler_config=settings.RoundRobinGlobalSchedulerConfig(),
            replica_scheduler_config=scheduler,
        ),
        request_generator_config=settings.TraceRequestGeneratorConfig(trace_file=trace, max_tokens=32768),
        metrics_config=settings.MetricsConfig(
            output_dir=folder,
            cache_dir=folder,
            enable_chrome_trace=False,
            store_plots=False,
            store_batch_metrics=False,
            store_utilization_metrics=False,
        ),
    )


def main():
    list_path, servers_path, replicas = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(servers_path, encoding="utf-8") as file:
        servers = json.load(file)
    steps = step_times(servers)
    kind = ExecutionTimePredictorType.RANDOM_FORREST
    ExecutionTimePredictorRegistry.unregister(kind)
    ExecutionTimePredictorRegistry.register(kind, steps)
    Simulator._write_output = lambda self: None
    with tempfile.TemporaryDirectory() as folder:
        trace = converted(list_path, folder)
        simulator = Simulator(simulation(trace, servers, replicas, folder))
        requests = [event._request for _, event in simulator._event_queue]
        start = time.process_time()
        simulator.run()
        used = time.process_time() - start
    served = [request for request in requests if request.completed]
    tokens = sum(int(request.num_processed_tokens - request.num_prefill_tokens) for request in served)
    print(len(served), f"{used:.6f}", tokens, f"{simulator._time:.3f}", steps.batches, 1, sep="\t")


if __name__ == "__main__":
    main()
