"""Vidur on a case of `benches/peers/crosscheck.py`: the lines that the other programs print.

    crosscheck.py CASE

Needs what `run.py` needs. Vidur has no prefix cache: hits are not told.
"""

import json
import sys
import tempfile

import pandas as pd
from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
from vidur.simulator import Simulator
from vidur.types import ExecutionTimePredictorType

import run


def trace(case, folder):
    """The case's requests with the columns that Vidur reads."""
    rows = [
        {
            "arrived_at": asked["at_ns"] * 1e-9,
            "num_prefill_tokens": sum(tokens for _, tokens in asked["prompt"]),
            "num_decode_tokens": asked["output"],
        }
        for asked in case["requests"]
    ]
    path = f"{folder}/list.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        case = json.load(file)
    engine = case["engine"]
    servers = {
        "blocks": case["blocks"],
        "block_tokens": engine["block_size"],
        "max_num_seqs": engine["max_num_seqs"],
        "max_num_batched_tokens": engine["max_num_batched_tokens"],
        "step_ms": case["step_ms"],
        "decode_row_us": 0.0,
        "prefill_token_us": 0.0,
    }
    steps = run.step_times(servers)
    kind = ExecutionTimePredictorType.RANDOM_FORREST
    ExecutionTimePredictorRegistry.unregister(kind)
    ExecutionTimePredictorRegistry.register(kind, steps)
    Simulator._write_output = lambda self: None
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(run.simulation(trace(case, folder), servers, 1, folder))
        requests = [event._request for _, event in simulator._event_queue]
        simulator.run()
    requests.sort(key=lambda request: request.id)
    print("request,admitted_ms,hit_tokens,first_ms,last_ms,preemptions")
    for at, request in enumerate(requests):
        times = [request.scheduled_at, request.prefill_completed_at, request.completed_at]
        admitted, first, last = (f"{1e3 * time:.6f}" for time in times)
        print(f"{at},{admitted},-,{first},{last},{request.num_restarts}")
    print(f"steps,{steps.batches}")


if __name__ == "__main__":
    main()
