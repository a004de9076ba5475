#!/usr/bin/env python3
"""The same requests through our engines and through independent ones, request by request.

    benches/peers/crosscheck.py [--keep FOLDER] [CASE ...]

Builds `crates/sim/benches/crosscheck.rs` and the peers `benches/peers/aisimulate` and `benches/peers/kv-index`, each with a
lock file of its own. Vidur is asked when VIDUR_DIR names its source tree; VIDUR_PYTHON names a Python that has what
`benches/peers/vidur/requirements.txt` lists. Every step takes the same time, so that nothing but the scheduler and the
cache decides. Prints a table; exit status 1 when a difference is found that `EXPLAINED` does not name, or one that it
names is gone.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(ROOT, "benches", "peers")
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
# No sum of steps falls on the time of an arrival, so that no rule about equal times is asked.
STEP_MS = 9.9731
TOLERANCE_MS = 0.001

# What may differ: (case, peer) to the columns and the rule, with whose is right. See docs/fidelity_crosscheck.md.
FULL = "aisimulate-core asks at every step; SGLang asks again only when a request has left (batch_is_full)"
CUT = "aisimulate-core admits a cut prompt by its first piece and without a page to spare; SGLang by all of it, its answer and a page"
LEAF = "aisimulate-core evicts as many pages as it needs; SGLang evicts whole leaves"
EXPLAINED = {
    ("sglang_tight", "aisimulate"): {
        "admitted_ms": f"{CUT}; {FULL}",
        "first_ms": "follows from admissions",
        "last_ms": "follows from admissions",
        "preemptions": "follows from admissions",
        "hit_tokens": f"{LEAF}; or follows from admissions",
    },
    ("sglang_evicting", "aisimulate"): {"hit_tokens": LEAF},
}


def requests(seed, count, gap_ms, shared, prompt, answer):
    """Poisson arrivals; every prompt is a part shared by one of eight groups (or none) and a part of its own."""
    draw = random.Random(seed)
    at_ns, rows = 0, []
    for number in range(count):
        at_ns += round(draw.expovariate(1 / gap_ms) * 1e6) + 1
        own = [1000 + number, 1 + round(draw.lognormvariate(0, 0.8) * prompt)]
        group = draw.randrange(8)
        head = [[group, draw.choice([shared, shared // 2, shared + 7])]] if shared and draw.random() < 0.7 else []
        output = 1 + round(draw.lognormvariate(0, 0.7) * answer)
        rows.append({"at_ns": at_ns, "prompt": head + [own], "output": output})
    return rows


def vllm(**over):
    return {"kind": "vllm", "max_loras": 0, "block_size": 16, "max_num_seqs": 32, "max_num_batched_tokens": 512, **over}


def sglang(**over):
    engine = {"kind": "sglang", "enable_lora": False, "page_size": 16, "max_running_requests": 32}
    return {**engine, "chunked_prefill_size": 512, "max_prefill_tokens": 16384, **over}


def case(engine, blocks, rows):
    return {"engine": engine, "blocks": blocks, "step_ms": STEP_MS, "requests": rows}


def cases():
    roomy = {"count": 200, "gap_ms": 60, "shared": 320, "prompt": 150, "answer": 60}
    seldom = {"count": 200, "gap_ms": 400, "shared": 320, "prompt": 150, "answer": 30}
    alone = {"count": 150, "gap_ms": 60, "shared": 0, "prompt": 300, "answer": 60}
    serial = {"count": 150, "gap_ms": 60, "shared": 320, "prompt": 150, "answer": 1}
    one_by_one = requests(5, **serial)
    for number, row in enumerate(one_by_one):
        row["at_ns"] = 1 + number * 1_000_000_000
    return {
        # Room for all: order, chunking, budgets, hits.
        "vllm_roomy": (case(vllm(), 20_000, requests(1, **roomy)), ["aisimulate"]),
        # Memory for about eight requests: preemption and eviction.
        "vllm_tight": (case(vllm(), 300, requests(2, **roomy)), ["aisimulate"]),
        # No two prompts alike: what a simulator without a prefix cache can be asked.
        "vllm_alone": (case(vllm(), 20_000, requests(3, **alone)), ["aisimulate", "vidur"]),
        "sglang_roomy": (case(sglang(), 20_000, requests(1, **roomy)), ["aisimulate"]),
        "sglang_tight": (case(sglang(), 300, requests(2, **roomy)), ["aisimulate"]),
        # Enough memory for who runs, and not for all that was ever asked: eviction alone.
        "vllm_evicting": (case(vllm(), 400, requests(4, **seldom)), ["aisimulate"]),
        "sglang_evicting": (case(sglang(), 400, requests(4, **seldom)), ["aisimulate"]),
        # One at a time, so that only the radix cache is asked.
        "radix_pages": (case(sglang(), 100_000, one_by_one), ["aisimulate", "kv-index"]),
        "radix_tokens": (case(sglang(page_size=1), 1_600_000, one_by_one), ["aisimulate", "kv-index"]),
    }


def built():
    """Command of each program that there is."""

    def cargo(*words, where=ROOT, target=TARGET, name):
        env = {**os.environ, "CARGO_TARGET_DIR": target}
        command = ["cargo", *words, "--locked", "-q", "--message-format=json-render-diagnostics"]
        done = subprocess.run(command, cwd=where, env=env, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{name} did not build in {where}")
        built = [json.loads(line) for line in done.stdout.splitlines()]
        paths = [m.get("executable") for m in built if m.get("target", {}).get("name") == name and m.get("executable")]
        return [paths[-1]]

    peers = os.path.join(TARGET, "peers")
    ours = cargo("bench", "--no-run", "--profile", "dev", "-p", "acb-sim", "--bench", "crosscheck", name="crosscheck")
    programs = {"acb": ours}
    for name, binary in [("aisimulate", "crosscheck"), ("kv-index", "kv-index-peer")]:
        where = os.path.join(PEERS, name)
        programs[name] = cargo("build", "--bin", binary, where=where, target=peers, name=binary)
    if os.environ.get("VIDUR_DIR"):
        python = os.environ.get("VIDUR_PYTHON", sys.executable)
        programs["vidur"] = [python, os.path.join(PEERS, "vidur", "crosscheck.py")]
    return programs


def rows_of(command, path):
    """Rows by request, and the number of steps if it is told."""
    env = {**os.environ, "PYTHONPATH": os.environ.get("VIDUR_DIR", "")}
    done = subprocess.run([*command, path], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[-1]} failed: {done.stderr[-2000:]}")
    lines = [line.split(",") for line in done.stdout.splitlines()]
    start = next(at for at, line in enumerate(lines) if line[0] == "request")
    header, rows, steps = lines[start], {}, None
    for line in lines[start + 1 :]:
        if line[0] == "steps":
            steps = int(line[1])
        elif line[0].isdigit():
            rows[int(line[0])] = dict(zip(header[1:], line[1:]))
    return rows, steps


def differ(column, a, b):
    if a == b or "-" in (a, b):
        return False
    return abs(float(a) - float(b)) > (TOLERANCE_MS if column.endswith("_ms") else 0)


def compare(ours, theirs):
    """Requests that differ, by column; and the differences of steps."""
    (our_rows, our_steps), (their_rows, their_steps) = ours, theirs
    missing = sorted(our_rows.keys() ^ their_rows.keys())
    if missing:
        sys.exit(f"requests {missing[:8]} are in one of the two only")
    columns = next(iter(their_rows.values())).keys()
    found = {}
    for column in columns:
        apart = [n for n, row in our_rows.items() if differ(column, row[column], their_rows[n][column])]
        if apart:
            found[column] = sorted(apart)
    if their_steps is not None and our_steps != their_steps:
        found["steps"] = [our_steps, their_steps]
    order = lambda rows: sorted(rows, key=lambda n: (float(rows[n]["admitted_ms"]), n))
    if "admitted_ms" in columns and order(our_rows) != order(their_rows):
        found["order"] = ["of admission"]
    return found


def report(name, peer, ours, theirs, found):
    """Prints what was found, and says whether it is what is explained."""
    explained = EXPLAINED.get((name, peer), {})
    steps = f"{ours[1]} steps, {theirs[1]}" if theirs[1] is not None else "steps not told"
    print(f"{name} | {peer} | {len(ours[0])} requests | {steps} | ", end="")
    if not found:
        print("equal")
    else:
        words = [f"{column}: {len(apart)} ({', '.join(map(str, apart[:3]))})" for column, apart in found.items()]
        print("; ".join(words))
    unexplained = sorted(found.keys() - explained.keys())
    gone = sorted(explained.keys() - found.keys())
    for column in sorted(found.keys() & explained.keys()):
        print(f"    explained, {column}: {explained[column]}")
    if unexplained:
        print(f"    NOT EXPLAINED: {', '.join(unexplained)}")
    if gone:
        print(f"    explained and not found: {', '.join(gone)}")
    return not unexplained and not gone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases; all when absent")
    parser.add_argument("--keep", metavar="FOLDER", help="write cases and rows here")
    words = parser.parse_args()
    known = cases()
    unknown = [name for name in words.cases if name not in known]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(known)}")
    programs = built()
    folder = words.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    well = True
    for name in words.cases or known:
        written, peers = known[name]
        path = os.path.join(folder, f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(written, file)
        ours = rows_of(programs["acb"], path)
        for peer in peers:
            if peer not in programs:
                print(f"{name} | {peer} | not asked: VIDUR_DIR names no source tree")
                continue
            theirs = rows_of(programs[peer], path)
            well &= report(name, peer, ours, theirs, compare(ours, theirs))
            if words.keep:
                for program, (rows, steps) in [("acb", ours), (peer, theirs)]:
                    with open(os.path.join(folder, f"{name}.{program}.json"), "w", encoding="utf-8") as file:
                        json.dump({"steps": steps, "rows": rows}, file, indent=1)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
