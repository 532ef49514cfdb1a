"""A stand-in for the executable ``vllm``, for unit tests of process handling: it is not vLLM.

``vllm bench serve`` is imitated with vLLM's own weaknesses: every stream that began counts as a success, tokens
without usage are guessed (four a word), and the exit status is 0 whatever happened. ``FAKE_VLLM`` in its environment,
which a test sets by a wrapper script, makes it misbehave as a process.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import math
import os
import random
import sys
import time
import typing as t
import urllib.parse

TOKENS_A_WORD = 4


def install(directory: str, mode: str = "") -> str:
    """Write an executable ``vllm`` that runs this file in a mode of misbehaving; returns its path."""
    path = os.path.join(directory, f"vllm-{mode}" if mode else "vllm")
    run = f"os.environ['FAKE_VLLM'] = {mode!r}; runpy.run_path({__file__!r}, run_name='__main__')"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!{sys.executable}\nimport os, runpy\n{run}\n")
    os.chmod(path, 0o755)
    return path


def one_request(options: argparse.Namespace, prompt: str) -> dict[str, t.Any]:
    """Send one completion as a naive client does."""
    parts = urllib.parse.urlsplit(options.base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Content-Type": "application/json"}
    if os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
    tokens = options.custom_output_len or options.random_output_len
    body = {"model": options.model, "prompt": prompt, "max_tokens": tokens, "stream": True}
    out: dict[str, t.Any] = {"ttft": 0.0, "itls": [], "input": len(prompt), "output": 0, "error": "", "latency": 0.0}
    out["start"] = last = time.perf_counter()
    words, usage = 0, 0
    try:
        connection.request("POST", options.endpoint, json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            out["error"] = response.reason
            return out
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices"):
                now = time.perf_counter()
                if out["ttft"]:
                    out["itls"].append(now - last)
                else:
                    out["ttft"] = now - out["start"]
                last = now
                words += len(event["choices"][0]["text"].split())
            elif event.get("usage"):
                usage = event["usage"]["completion_tokens"]
    except (OSError, http.client.HTTPException) as e:
        out["error"] = f"Traceback (most recent call last):\n  ...\n{type(e).__name__}: {e}"
        return out
    out["latency"] = last - out["start"]
    out["output"] = usage or words * TOKENS_A_WORD
    return out


def bench(argv: list[str]) -> None:
    """Imitate ``vllm bench serve``."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("base-url", "endpoint", "model", "tokenizer", "result-dir", "result-filename"):
        parser.add_argument(f"--{flag}", required=True)
    for flag in ("num-prompts", "seed"):
        parser.add_argument(f"--{flag}", required=True, type=int)
    for flag in ("random-input-len", "random-output-len", "custom-output-len", "max-concurrency"):
        parser.add_argument(f"--{flag}", type=int)
    parser.add_argument("--request-rate", type=float, required=True)
    parser.add_argument("--dataset-path")
    options, _others = parser.parse_known_args(argv)
    rng = random.Random(options.seed)
    if options.dataset_path:
        with open(options.dataset_path, encoding="utf-8") as f:
            prompts = [json.loads(line)["prompt"] for line in f][: options.num_prompts]
    else:
        count, length = options.num_prompts, options.random_input_len
        prompts = ["".join(rng.choices("abcdefgh", k=length)) for _prompt in range(count)]
    print("Starting main benchmark run...", flush=True)
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.max_concurrency or len(prompts)) as pool:
        futures = []
        for prompt in prompts:
            futures.append(pool.submit(one_request, options, prompt))
            if math.isfinite(options.request_rate):
                time.sleep(rng.expovariate(options.request_rate))
        outs = [future.result() for future in futures]
    print("============ Serving Benchmark Result ============", flush=True)
    result = {
        "duration": time.perf_counter() - begin,
        "completed": sum(not o["error"] for o in outs),
        "input_lens": [o["input"] for o in outs],
        "output_lens": [o["output"] for o in outs],
        "ttfts": [o["ttft"] for o in outs],
        "itls": [o["itls"] for o in outs],
        "latencies": [o["latency"] for o in outs],
        "start_times": [o["start"] for o in outs],
        "generated_texts": ["a long text"] * len(outs),
        "errors": [o["error"] for o in outs],
    }
    with open(os.path.join(options.result_dir, options.result_filename), "w", encoding="utf-8") as f:
        json.dump(result, f)
    # The real one needs a while to end its interpreter, in which whoever watches it reads its processor time.
    time.sleep(0.5)


def main() -> None:
    """Dispatch as the real executable does."""
    mode = os.environ.get("FAKE_VLLM", "")
    if sys.argv[1:] == ["--version"]:
        print("0.9.2" if mode == "old" else "0.32.0")
    elif mode == "crash":
        print(f"RuntimeError: cannot start with {os.environ.get('OPENAI_API_KEY', '')}", file=sys.stderr)
        sys.exit(1)
    elif mode == "hang":
        time.sleep(60)
    elif sys.argv[1:3] == ["bench", "serve"]:
        bench(sys.argv[3:])
    else:
        sys.exit(2)


if __name__ == "__main__":
    main()
