#!/usr/bin/env python3
"""Load clients beside each other: throughput, CPU and memory, each against the same scripted server.

    benches/peers/clients/clients.py --acb PATH --venvs FOLDER [--rounds 3] [--requests 2000] [--rate R] [--only NAME,...]

A client is run when `FOLDER/NAME/bin` has its command (one environment per client, made with
`python -m venv FOLDER/NAME && FOLDER/NAME/bin/pip install -r benches/peers/clients/NAME.txt`); others are left out with a
word. Without `--rate`, 64 requests are in flight and the server answers 32 tokens at once; with it, arrivals are Poisson and
the server takes 50 ms to the first of 16 tokens and 10 ms to each further one.

What is printed comes from the server's own trace (rate, time to first token) and from the operating system (CPU time of
the whole process tree, peak memory of its largest process), and only the TTFT that it is compared with from the client.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

MODEL = "base"
IN_FLIGHT = 64
# Of the looks whether a client has ended, one in so many also reads its memory.
LOOK_EVERY = 10


def tokenizer(venvs):
    """Makes a tokenizer of one token per word: most clients insist on one, and this needs no download."""
    folder = venvs / "tokenizer"
    if (folder / "tokenizer.json").exists():
        return folder
    maker = next(venvs.glob("*/lib/python3*/site-packages/transformers"), None)
    if maker is None:
        raise SystemExit(f"no environment under {venvs} has `transformers`, which makes the tokenizer")
    code = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from transformers import PreTrainedTokenizerFast
words = ["<unk>", "<s>", "</s>"] + ["w%d" % i for i in range(2000)] + ["tok"]
made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>")
fast.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
fast.save_pretrained(sys.argv[1])
"""
    subprocess.run([maker.parents[3] / "bin/python", "-c", code, str(folder)], check=True, capture_output=True)
    return folder


def acb(at):
    load = ["--rate", str(at.rate)] if at.rate else ["--concurrency", str(IN_FLIGHT)]
    return [at.acb, "bench", "--url", at.url, "--model", MODEL, "--api", "chat", "--requests", str(at.requests),
            "--input-tokens", "64", "--output-tokens", str(at.tokens), *load, "--out", str(at.out / "acb")]


def acb_ttft(at):
    rows = [json.loads(line) for line in open(next((at.out / "acb").rglob("requests.jsonl")))]
    return [(row["first_token_ns"] - row["sent_ns"]) / 1e6 for row in rows if row["outcome"] == "ok"]


def aiperf(at):
    load = ["--request-rate", str(at.rate), "--request-rate-mode", "poisson"] if at.rate else ["--concurrency", str(IN_FLIGHT)]
    return [at.bin("aiperf"), "profile", "-m", MODEL, "--url", at.url, "--endpoint-type", "chat", "--streaming",
            "--request-count", str(at.requests), "--isl", "64", "--osl", str(at.tokens), "--tokenizer", str(at.tokenizer()),
            "--ui", "none", "--output-artifact-dir", str(at.out / "aiperf"), *load]


def aiperf_ttft(at):
    rows = [json.loads(line) for line in open(next((at.out / "aiperf").rglob("profile_export.jsonl")))]
    found = [row["metrics"].get("time_to_first_token") for row in rows]
    return [one["value"] for one in found if one]


def guidellm(at):
    profile = f"kind=poisson,rate={at.rate}" if at.rate else f"kind=concurrent,streams={IN_FLIGHT}"
    return [at.bin("guidellm"), "run", "--backend", f"kind=openai_http,target={at.url},model={MODEL}", "--profile", profile,
            "--tokenizer", f"kind=huggingface_auto,model={at.tokenizer()}", "--constraint", f"kind=max_requests,count={at.requests}",
            "--data", f"kind=synthetic_text,prompt_tokens=64,output_tokens={at.tokens}",
            "--output", f"kind=json,path={at.out / 'guidellm.json'}", "--disable-console"]


def guidellm_ttft(at):
    report = json.load(open(at.out / "guidellm.json"))
    rows = report["benchmarks"][0]["requests"]["successful"]
    return [row["time_to_first_token_ms"] for row in rows if row.get("time_to_first_token_ms") is not None]


# Its own entry imports model tooling that the client doesn't need.
SGLANG = """
import importlib.util, pathlib, sys, sysconfig
path = next(pathlib.Path(sysconfig.get_paths()["purelib"]).glob("sglang/srt/rust_extensions/_bench*.so"))
spec = importlib.util.spec_from_file_location("_bench", path)
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)
bench.run_argv(["sglang-bench", *sys.argv[1:]])
"""


def sglang_rust(at):
    load = ["--request-rate", str(at.rate)] if at.rate else ["--max-concurrency", str(IN_FLIGHT)]
    return [at.bin("python"), "-c", SGLANG, "--backend", "vllm-chat", "--base-url", at.url, "--model", MODEL,
            "--tokenizer", str(at.tokenizer()), "--dataset-name", "random-ids", "--random-input-len", "64",
            "--random-output-len", str(at.tokens), "--random-range-ratio", "1", "--num-prompts", str(at.requests),
            "--disable-tqdm", "--disable-retokenize", "--output-details", "--output-file", str(at.out / "sglang.jsonl"), *load]


def sglang_rust_ttft(at):
    report = json.loads((at.out / "sglang.jsonl").read_text().splitlines()[-1])
    return [ttft * 1e3 for ttft in report["ttfts"] if ttft]


def inference_perf(at):
    stage = {"rate": at.rate, "duration": max(1, round(at.requests / at.rate))} if at.rate else \
        {"num_requests": at.requests, "concurrency_level": IN_FLIGHT}
    config = {
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random",
                 "input_distribution": {"min": 64, "max": 64, "mean": 64, "std_dev": 0, "total_count": at.requests},
                 "output_distribution": {"min": at.tokens, "max": at.tokens, "mean": at.tokens, "std_dev": 0,
                                         "total_count": at.requests}},
        "load": {"type": "poisson" if at.rate else "concurrent", "stages": [stage], "num_workers": 2},
        "server": {"type": "vllm", "model_name": MODEL, "base_url": at.url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(at.tokenizer())},
        "report": {"request_lifecycle": {"summary": True, "per_request": True,
                                         "per_request_fields": {"computed_metrics": True}}},
        "storage": {"local_storage": {"path": str(at.out / "inference-perf")}},
    }
    path = at.out / "inference-perf.yml"
    path.write_text(json.dumps(config))  # JSON is YAML.
    return [at.bin("inference-perf"), "--config_file", str(path)]


def inference_perf_ttft(at):
    rows = json.load(open(next((at.out / "inference-perf").rglob("per_request*.json"))))
    found = [row.get("computed_metrics", {}).get("time_to_first_token") for row in rows]
    return [ttft * 1e3 for ttft in found if ttft is not None]


CLIENTS = {
    "acb": (acb, acb_ttft),
    "sglang-rust": (sglang_rust, sglang_rust_ttft),
    "aiperf": (aiperf, aiperf_ttft),
    "guidellm": (guidellm, guidellm_ttft),
    "inference-perf": (inference_perf, inference_perf_ttft),
}


class Setting:
    """One run of one client: where things are, and what is asked for."""

    def __init__(self, options, name, url, out):
        self.acb, self.rate, self.requests = options.acb, options.rate, options.requests
        self.url, self.out, self.venv = url, out, Path(options.venvs) / name
        self.tokens = 16 if options.rate else 32
        self.venvs = Path(options.venvs)

    def bin(self, name):
        return str(self.venv / "bin" / name)

    def tokenizer(self):
        return tokenizer(self.venvs)


def serve(options, log):
    """Starts the scripted server; its process and URL."""
    shape = "tokens=16,ttft-ms=50,itl-ms=10" if options.rate else "tokens=32,ttft-ms=0,itl-ms=0"
    if options.coalesce:
        shape = "coalesce," + shape
    server = subprocess.Popen([options.acb, "serve-fake", "--shape", shape, "--model", MODEL],
                              stdout=subprocess.PIPE, stderr=log, text=True)
    for line in server.stdout:
        if line.startswith("http://"):
            return server, line.strip()
    raise SystemExit("the server did not start")


def median(values):
    return statistics.median(values) if values else float("nan")


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def dispersion(starts_s, width_s=0.1):
    """Variance over mean of arrivals per tenth of a second: 1 for Poisson."""
    if not starts_s:
        return float("nan")
    counts = [0] * (int((max(starts_s) - min(starts_s)) / width_s) + 1)
    for start in starts_s:
        counts[int((start - min(starts_s)) / width_s)] += 1
    mean = statistics.mean(counts[:-1] or counts)
    return statistics.pvariance(counts[:-1] or counts) / mean if mean else float("nan")


def measure(options, name):
    """Runs one client once against a fresh server."""
    command, ttft_of = CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        with open(out / "server.log", "w") as log, open(out / "client.log", "w") as client_log:
            server, url = serve(options, log)
            try:
                at = Setting(options, name, url, out)
                argv = command(at)
                begun = time.monotonic()
                client = subprocess.Popen(argv, stdout=client_log, stderr=subprocess.STDOUT, cwd=out, start_new_session=True)
                status, usage, largest = wait(client, options.timeout)
                wall = time.monotonic() - begun
                trace = json.load(urllib.request.urlopen(url + "/__trace"))
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()
        rows = [row for row in trace["requests"] if row.get("tokens")]
        rows = rows[max(0, len(rows) - at.requests):]  # A client's own trial request, sent before the others, is none of them.
        if not rows:
            tail = (out / "client.log").read_text()[-600:]
            return {"failed": f"status {status}, no request reached the server: {tail}"}
        starts = [row["received_ns"] for row in rows]
        span = (max(row["last_write_ns"] for row in rows) - min(starts)) / 1e9
        truth = [(row["first_token_ns"] - row["received_ns"]) / 1e6 for row in rows]
        told = []
        try:
            told = ttft_of(at)
        except (StopIteration, KeyError, OSError, ValueError, TypeError) as error:
            print(f"{name}: its TTFT could not be read: {error!r}", file=sys.stderr)
        return {
            "status": status, "requests": len(rows), "rate": len(rows) / span,
            "arrivals": (len(rows) - 1) / ((max(starts) - min(starts)) / 1e9), "dispersion": dispersion([s / 1e9 for s in starts]),
            "cpu_10k": (usage.ru_utime + usage.ru_stime) / len(rows) * 1e4, "rss_mib": largest / 1024,
            "around_s": wall - span, "error_p50": quantile(told, 0.5) - quantile(truth, 0.5),
            "error_p99": quantile(told, 0.99) - quantile(truth, 0.99),
        }


def wait(client, limit_s):
    """Status, use of processor time of the client's whole tree, and its largest process; one that takes too long is stopped.

    Memory is read from each process while it lives: what the system reports at the end has that of this script in it, from
    which the client was forked."""
    until, look, largest = time.monotonic() + limit_s, 0, 0
    while time.monotonic() < until:
        if look % LOOK_EVERY == 0:
            largest = max(largest, peak_kib(client.pid))
        look += 1
        pid, status, usage = os.wait4(client.pid, os.WNOHANG)
        if pid:
            client.returncode = os.waitstatus_to_exitcode(status)
            return client.returncode, usage, largest
        time.sleep(0.02)
    os.killpg(client.pid, signal.SIGKILL)
    _, status, usage = os.wait4(client.pid, 0)
    client.returncode = os.waitstatus_to_exitcode(status)
    return client.returncode, usage, largest


def peak_kib(group):
    """Peak resident set of the largest process of a group, KiB; 0 when none is there, or it has not begun its program."""
    largest, own = 0, Path("/proc/self/cmdline").read_bytes()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group or (folder / "cmdline").read_bytes() == own:
                continue
            for line in (folder / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    largest = max(largest, int(line.split()[1]))
        except OSError:
            continue
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acb", required=True, type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--venvs", required=True, type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--coalesce", action="store_true", help="the server writes an answer in one piece")
    parser.add_argument("--only", default=",".join(CLIENTS))
    parser.add_argument("--timeout", type=float, default=240.0, help="longest time of one run, s")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name in CLIENTS]
    for name in [n for n in names if n != "acb" and not (Path(options.venvs) / n / "bin").exists()]:
        print(f"{name}: not measured, it is not installed", file=sys.stderr)
        names.remove(name)
    runs = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            run = measure(options, name)
            if "failed" in run:
                print(f"{name}: {run['failed']}", file=sys.stderr)
            else:
                runs[name].append(run)
            print(name, json.dumps(run), file=sys.stderr)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {options.requests} requests, "
          + (f"{options.rate} per second" if options.rate else f"{IN_FLIGHT} in flight"))
    print("| client | runs | requests/s at the server | CPU-s per 10,000, whole run | largest process, MiB | start and end, s "
          "| dispersion | TTFT error p50 / p99, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, of in runs.items():
        m = lambda key: median([run[key] for run in of])
        rate = "arrivals" if options.rate else "rate"
        print(f"| {name} | {len(of)} | {m(rate):.0f} | {m('cpu_10k'):.2f} | {m('rss_mib'):.0f} | {m('around_s'):.1f} "
              f"| {m('dispersion'):.1f} | {m('error_p50'):.1f} / {m('error_p99'):.1f} |")


if __name__ == "__main__":
    main()
