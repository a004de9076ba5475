//! Arguments of `acb bench` and `acb selftest`.

use acb_live::load::Stage;
use acb_types::Nanos;
use acb_workload::{CountLaw, Popularity};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `acb bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Where.
    #[command(flatten)]
    pub server: ServerArgs,
    /// When.
    #[command(flatten)]
    pub timing: TimingArgs,
    /// What.
    #[command(flatten)]
    pub asked: AskedArgs,
    /// Bounds of time per request that make it good, such as `ttft:500,tpot:50,e2e:5000`, in ms; TTFT and E2E count from
    /// the due time.
    #[arg(long, value_name = "NAME:MS,...", value_parser = goodput)]
    pub goodput: Option<Goodput>,
    /// Seed of arrivals, prompts, lengths and choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads that send and receive.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Folder for `requests.jsonl`, `observations.jsonl`, `routing.jsonl` and `bench.json`; nothing is recorded without it.
    /// An existing folder must be empty.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the summary as JSON (`acb schema bench`).
    #[arg(long)]
    pub json: bool,
}

/// The servers.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// Server: `http://HOST:PORT`, `https://HOST` or `unix:PATH`. May be repeated: replicas among which `--policy` chooses.
    #[arg(long, value_name = "URL", required = true)]
    pub url: Vec<String>,
    /// How the server is told of adapters, and which extra fields it knows.
    #[arg(long, value_enum, default_value_t = Runtime::Openai)]
    pub runtime: Runtime,
    /// Endpoint.
    #[arg(long, value_enum, default_value_t = ApiName::Completions)]
    pub api: ApiName,
    /// Name of the base model. Not needed where the server lists only one under `/v1/models`, nor where every request names
    /// an adapter and the adapter is the model.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Environment variable that holds the API key; the key itself never reaches a record or a log.
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// Certificate authorities to believe, PEM, in place of the machine's.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Speak HTTP/2; without TLS by prior knowledge.
    #[arg(long)]
    pub http2: bool,
    /// Routing policy over several servers (`acb list policies`). Those that scrape servers can't be had here.
    #[arg(long, value_name = "NAME", default_value = "least_in_flight")]
    pub policy: String,
    /// Longest time for an answer.
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = duration)]
    pub timeout: Nanos,
    /// Times to try a request again that found no connection or got 408, 429 or 5xx. Each try is recorded.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,
}

/// When requests are sent, and for how long.
#[derive(Clone, Debug, Args)]
pub struct TimingArgs {
    /// Requests per second, open loop.
    #[arg(long, value_name = "RPS", value_parser = rate, group = "load")]
    pub rate: Option<f64>,
    /// Open loop with a rate that changes: `10s@5,30s@5-50` is 10 s at 5 requests per second, then 30 s from 5 to 50.
    #[arg(long, value_name = "TIME@RPS[-RPS],...", value_parser = stages, group = "load")]
    pub stages: Option<Stages>,
    /// Closed loop: users that each send, wait and send again.
    #[arg(long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(1..=1_000_000), group = "load")]
    pub concurrency: Option<u32>,
    /// Law of the gaps of `--rate` and `--stages`: `poisson`, `constant` or `gamma:CV`.
    #[arg(long, value_name = "LAW", default_value = "poisson", value_parser = gaps)]
    pub arrivals: Gaps,
    /// Send for so long. 60 s when neither this nor `--requests` nor a trace says when to stop.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Send so many requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub requests: Option<u64>,
    /// Requests due in the first so long are sent and recorded, and are part of no figure.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub warmup: Nanos,
    /// Most requests in flight. When it keeps one back, the load is marked as not open.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_in_flight: Option<u32>,
    /// How long answers may still come after the last request was sent, or after Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub grace: Nanos,
}

/// What is asked for.
#[derive(Clone, Debug, Args)]
pub struct AskedArgs {
    /// Adapters by the names that the server knows; every request names one.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub adapters: Vec<String>,
    /// How often each adapter is asked for: `uniform`, `zipf:S`, `slora:ALPHA`, `punica:ALPHA`, `linear` or `weights:W:W:...`.
    #[arg(long, value_name = "LAW", default_value = "uniform", value_parser = popularity)]
    pub popularity: Popularity,
    /// Prompts: `random`, `random:prefix=SHARE` (that share of the tokens is common to an adapter's requests),
    /// `sharegpt:FILE`, `jsonl:FILE` (lines with `prompt`, and `output_tokens` if known), `mooncake:FILE`, `azure:FILE`.
    #[arg(long, value_name = "KIND[:FILE]", default_value = "random", value_parser = dataset)]
    pub dataset: Dataset,
    /// Tokens of a random prompt: a number, `uniform:MIN:MAX`, `lognormal:MEAN:CV` or `geometric:MEAN`.
    #[arg(long, value_name = "LAW", value_parser = count_law)]
    pub input_tokens: Option<CountLaw>,
    /// Tokens of an answer, by the same laws; the dataset's own where it has them.
    #[arg(long, value_name = "LAW", value_parser = count_law)]
    pub output_tokens: Option<CountLaw>,
    /// How prompts are written: exact token ids, or one common word per token. Ids with completions, words with chat.
    #[arg(long, value_enum)]
    pub prompt_form: Option<Form>,
    /// Let the model end its answers itself; the length asked for is then only the bound.
    #[arg(long)]
    pub stop_early: bool,
    /// A `tokenizer.json` with which the answers are counted again after the run, beside the server's own count. Latencies per
    /// token stay by the server's. Answers wait in a temporary file for it, and are in no record.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Send the same prompts as every run with this seed does. Without it each run has a number of its own in its prompts, so
    /// that none finds what an earlier one left in the server's cache.
    #[arg(long)]
    pub same_prompts: bool,
}

/// Arguments of `acb selftest`.
#[derive(Clone, Debug, Args)]
pub struct SelftestArgs {
    /// Seconds of each timed part.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Nanos,
    /// Threads that send and receive.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Print JSON (`acb schema selftest`).
    #[arg(long)]
    pub json: bool,
}

/// Serving runtimes, as far as their requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    /// Any server of the OpenAI dialect: the adapter is the model, and no extra field is sent.
    Openai,
    /// vLLM: the adapter is the model; `ignore_eos`, `cache_salt`.
    Vllm,
    /// SGLang: the model is `base:adapter`; `ignore_eos`, `cache_salt`.
    Sglang,
    /// llama.cpp: `lora` with a scale for each adapter, in the order in which the server was started with them.
    Llamacpp,
}

/// Endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApiName {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
}

/// Forms of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Token ids.
    TokenIds,
    /// Words.
    Words,
}

/// Law of gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Even.
    Constant,
    /// Exponential.
    Poisson,
    /// Gamma with this coefficient of variation.
    Gamma(f64),
}

/// Stages of a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages(pub Vec<Stage>);

/// Where prompts come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Dataset {
    /// Made up, with this share common to an adapter's requests.
    Random(f64),
    /// Conversations; the first question of each.
    Sharegpt(PathBuf),
    /// Lines with `prompt`.
    Jsonl(PathBuf),
    /// A Mooncake trace.
    Mooncake(PathBuf),
    /// An Azure trace.
    Azure(PathBuf),
}

/// Bounds that make a request good.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goodput {
    /// Due to first token.
    pub ttft: Option<Nanos>,
    /// Per token after the first event's.
    pub tpot: Option<Nanos>,
    /// Due to last token.
    pub e2e: Option<Nanos>,
}

/// `60s`, `500ms`, `2m`, `1h`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("\"{unit}\" is no unit of time; write ms, s, m or h")),
    };
    let seconds = digits.parse::<f64>().map(|value| value * scale);
    match seconds {
        Ok(seconds) if (0.0..=1e8).contains(&seconds) => Ok(Nanos::from_secs_f64(seconds)),
        _ => Err("write a time such as 60s, 500ms or 2m".to_owned()),
    }
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("\"{text}\" is no number from {least} to {most}"))
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6)
}

fn gaps(text: &str) -> Result<Gaps, String> {
    match text.split_once(':') {
        None if text == "poisson" => Ok(Gaps::Poisson),
        None if text == "constant" => Ok(Gaps::Constant),
        Some(("gamma", cv)) => Ok(Gaps::Gamma(number(cv, 0.01, 100.0)?)),
        _ => Err("write poisson, constant or gamma:CV".to_owned()),
    }
}

fn stages(text: &str) -> Result<Stages, String> {
    let stage = |part: &str| {
        let (time, rates) = part.split_once('@').ok_or("write each stage as TIME@RPS or TIME@RPS-RPS")?;
        let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
        // Divided, not multiplied by 1e-9: whole seconds stay whole.
        let duration_s = duration(time)?.0 as f64 / 1e9;
        Ok::<_, String>(Stage {
            duration_s,
            from_rps: number(from, 0.0, 1e6)?,
            to_rps: number(to, 0.0, 1e6)?,
        })
    };
    text.split(',').map(stage).collect::<Result<_, _>>().map(Stages)
}

fn whole(text: &str) -> Result<u32, String> {
    number(text, 1.0, 1e6).map(|value| value as u32)
}

fn count_law(text: &str) -> Result<CountLaw, String> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        ["uniform", min, max] if whole(min)? <= whole(max)? => {
            Ok(CountLaw::Uniform { min: whole(min)?, max: whole(max)? })
        }
        ["lognormal", mean, cv] => {
            Ok(CountLaw::Lognormal { mean: number(mean, 1.0, 1e6)?, cv: number(cv, 0.0, 100.0)? })
        }
        ["geometric", mean] => Ok(CountLaw::Geometric { mean: number(mean, 1.0, 1e6)? }),
        ["fixed", value] | [value] => Ok(CountLaw::Fixed { value: whole(value)? }),
        _ => Err("write a number, uniform:MIN:MAX, lognormal:MEAN:CV or geometric:MEAN".to_owned()),
    }
}

fn popularity(text: &str) -> Result<Popularity, String> {
    let known = "write uniform, zipf:S, slora:ALPHA, punica:ALPHA, linear or weights:W:W:...";
    match text.split_once(':') {
        None if text == "uniform" => Ok(Popularity::Uniform {}),
        None if text == "linear" => Ok(Popularity::Linear {}),
        Some(("zipf", s)) => Ok(Popularity::Zipf { s: number(s, 0.0, 20.0)? }),
        Some(("slora", alpha)) => Ok(Popularity::SloraPower { alpha: number(alpha, 1e-9, 1.0)? }),
        Some(("punica", alpha)) => {
            Ok(Popularity::PunicaGeometric { alpha: number(alpha, 1.000_001, 1000.0)? })
        }
        Some(("weights", weights)) => {
            let weights: Vec<f64> =
                weights.split(':').map(|w| number(w, 0.0, 1e12)).collect::<Result<_, _>>()?;
            Ok(Popularity::Weights { weights })
        }
        _ => Err(known.to_owned()),
    }
}

fn dataset(text: &str) -> Result<Dataset, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let file = || match rest {
        "" => Err(format!("write {kind}:FILE")),
        path => Ok(PathBuf::from(path)),
    };
    match (kind, rest.strip_prefix("prefix=")) {
        ("random", Some(share)) => Ok(Dataset::Random(number(share, 0.0, 1.0)?)),
        ("random", None) if rest.is_empty() => Ok(Dataset::Random(0.0)),
        ("sharegpt", _) => file().map(Dataset::Sharegpt),
        ("jsonl", _) => file().map(Dataset::Jsonl),
        ("mooncake", _) => file().map(Dataset::Mooncake),
        ("azure", _) => file().map(Dataset::Azure),
        _ => Err("write random, random:prefix=SHARE, sharegpt:FILE, jsonl:FILE, mooncake:FILE or azure:FILE"
            .to_owned()),
    }
}

fn goodput(text: &str) -> Result<Goodput, String> {
    let mut bounds = Goodput::default();
    for part in text.split(',') {
        let (name, ms) = part.split_once(':').ok_or("write each bound as NAME:MS")?;
        let bound = Some(Nanos::from_millis_f64(number(ms, 0.0, 1e9)?));
        match name {
            "ttft" => bounds.ttft = bound,
            "tpot" => bounds.tpot = bound,
            "e2e" => bounds.e2e = bound,
            _ => return Err(format!("\"{name}\" is no bound; there are ttft, tpot and e2e")),
        }
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        let ms = |text| duration(text).map(|time| time.0 / 1_000_000);
        assert_eq!([ms("60s"), ms("500ms"), ms("2m"), ms("1.5")], [60_000, 500, 120_000, 1500].map(Ok));
        for bad in ["", "x", "-1s", "5 parsecs", "1e99s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn laws_are_read_and_what_is_none_is_told_what_there_is() {
        assert_eq!(count_law("128"), Ok(CountLaw::Fixed { value: 128 }));
        assert_eq!(count_law("uniform:8:511"), Ok(CountLaw::Uniform { min: 8, max: 511 }));
        assert!(count_law("uniform:9:8").is_err() && count_law("0").is_err());
        assert_eq!(popularity("zipf:1.0"), Ok(Popularity::Zipf { s: 1.0 }));
        assert!(popularity("zip").unwrap_err().contains("zipf:S"));
        assert_eq!(gaps("gamma:2"), Ok(Gaps::Gamma(2.0)));
        assert_eq!(dataset("random:prefix=0.5"), Ok(Dataset::Random(0.5)));
        assert_eq!(dataset("azure:a.csv"), Ok(Dataset::Azure("a.csv".into())));
        assert!(dataset("sharegpt").unwrap_err().contains("sharegpt:FILE"));
        let bounds = goodput("ttft:500,tpot:50").unwrap();
        assert_eq!((bounds.ttft, bounds.e2e), (Some(Nanos::from_millis(500)), None));
        assert!(goodput("itl:5").unwrap_err().contains("ttft, tpot and e2e"));
    }

    #[test]
    fn stages_are_times_with_rates() {
        let Stages(read) = stages("10s@5,30s@5-50").unwrap();
        assert_eq!(read[0], Stage { duration_s: 10.0, from_rps: 5.0, to_rps: 5.0 });
        assert_eq!(read[1], Stage { duration_s: 30.0, from_rps: 5.0, to_rps: 50.0 });
        assert!(stages("10s").is_err());
    }
}
