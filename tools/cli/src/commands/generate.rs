//! `lowtide generate`: text from a language model.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lowtide::session::Budget;
use lowtide::{Engine, SessionOptions};
use serde_json::{Value as Json, json};

use crate::device::{DeviceArgs, adapter_json, bind, describe};
use crate::failure::{Failure, Outcome};
use crate::lm::chat;
use crate::lm::model::{LanguageModel, Signature};
use crate::lm::sampling::{Sampler, Settings};
use crate::lm::text_stream::TextStream;
use crate::lm::tokens::TokenizerFolder;
use crate::{file, show};

/// Continues a prompt with a language model
///
/// Text goes to stdout as it is made; figures go to stderr at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program
    model: PathBuf,
    /// The folder of tokenizer.json and its companions; by default the program's
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
    /// The text to continue
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Put the prompt into the model's chat template, as a message of the user
    #[arg(long)]
    chat: bool,
    /// Print the prompt before the text
    #[arg(long, conflicts_with = "json")]
    echo: bool,
    /// Most tokens to make
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_new_tokens: usize,
    /// 0 takes the likeliest token each time; 1 samples from the model's probabilities
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    temperature: f64,
    /// Sample among the likeliest tokens that together reach this probability
    #[arg(long, value_name = "P", value_parser = probability, requires = "temperature")]
    top_p: Option<f64>,
    /// Sample among this many likeliest tokens
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), requires = "temperature")]
    top_k: Option<u32>,
    /// Makes sampling repeatable; by default it differs from run to run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Do not stop at end-of-text tokens
    #[arg(long)]
    ignore_eos: bool,
    /// Most device memory: 512MB in all, or +256MB on top of weights and state; the prompt is split to fit
    #[arg(long, value_name = "BYTES")]
    budget: Option<Budget>,
    /// The method
    #[arg(long, default_value = "forward")]
    method: String,
    /// Print one JSON object at the end instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

fn temperature(text: &str) -> Result<f64, String> {
    let t: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if t.is_finite() && t >= 0.0 { Ok(t) } else { Err("a temperature is 0 or more".into()) }
}

fn probability(text: &str) -> Result<f64, String> {
    let p: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if p > 0.0 && p <= 1.0 { Ok(p) } else { Err("a probability is above 0 and at most 1".into()) }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut clock = Clock::start();
    let loading = show::spinner(format!("opening {}", args.model.display()));
    let model = file::open(&args.model)?;
    let signature = Signature::of(&model, &args.method)?;
    let folder = TokenizerFolder::open(args.tokenizer.as_deref(), &args.model)?;
    let prompt = prompt_tokens(args, &folder, signature.context)?;
    let end = if args.ignore_eos { Vec::new() } else { folder.end_tokens(&model) };
    loading.finish_and_clear();
    clock.times.load = clock.lap();

    let engine = args.device.open()?;
    clock.times.device = clock.lap();
    let options = SessionOptions { budget: args.budget.unwrap_or_default(), ..SessionOptions::default() };
    let session = bind(&engine, &model)?.session(options)?;
    clock.times.upload = clock.lap();

    let seed = args.seed.unwrap_or_else(fresh_seed);
    let settings = Settings { temperature: args.temperature, top_k: args.top_k.map(|k| k as usize), top_p: args.top_p };
    let mut printer = Printer { quiet: args.json, out: io::stdout().lock(), text: String::new() };
    if args.echo {
        printer.print(&args.prompt)?;
        printer.text.clear();
    }
    let mut run = Run {
        model: LanguageModel::new(session, &args.method, signature),
        sampler: Sampler::new(settings, seed),
        stream: TextStream::after(&folder.tokenizer, &prompt).map_err(Failure::new)?,
        printer,
        made: Vec::new(),
        parts: Vec::new(),
        clock,
        engine: &engine,
    };
    let logits = run.prefill(&prompt)?;
    let stop = run.decode(logits, args.max_new_tokens, &end)?;
    let report = run.finish(&prompt, stop, seed, args.temperature)?;
    if args.json {
        println!("{:#}", report.json());
    } else {
        println!();
        eprint!("\n{}", report.text());
    }
    Ok(())
}

fn prompt_tokens(args: &Args, folder: &TokenizerFolder, context: Option<usize>) -> Outcome<Vec<u32>> {
    let ids = if args.chat {
        let template = folder.chat_template()?;
        let text = chat::render(&template, &args.prompt, |name| folder.special_token(name)).map_err(Failure::new)?;
        folder.encode(&text, false)?
    } else {
        folder.encode(&args.prompt, true)?
    };
    if ids.is_empty() {
        return Err(Failure::usage("the prompt has no tokens"));
    }
    if let Some(most) = context.filter(|&most| ids.len() > most) {
        return Err(Failure::new(format!("the prompt has {} tokens; the model takes {most}", ids.len())));
    }
    Ok(ids)
}

fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Why no more tokens are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    EndOfText,
    MaxNewTokens,
    ContextFull,
}

impl Stop {
    fn name(self) -> &'static str {
        match self {
            Self::EndOfText => "end_of_text",
            Self::MaxNewTokens => "max_new_tokens",
            Self::ContextFull => "context_full",
        }
    }
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Reading and checking the program, the tokenizer and the prompt.
    load: Duration,
    /// Opening the device.
    device: Duration,
    /// Weights to the device.
    upload: Duration,
    /// Compiling kernels, before the first token.
    pipelines: Duration,
    /// The first run less that; a driver that compiles at first use does so here.
    first_run: Duration,
    /// The other runs of the prompt.
    prefill: Duration,
    /// From the start to the first token.
    first_token: Duration,
    /// The first run of a single token, which brings kernels of its own.
    first_decode: Duration,
    /// The runs after that.
    decode: Duration,
}

struct Clock {
    begun: Instant,
    lap: Instant,
    times: Times,
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        Self { begun: now, lap: now, times: Times::default() }
    }
    /// Time since the last lap.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.lap, now)
    }
}

/// Prints pieces of text and keeps them.
struct Printer {
    quiet: bool,
    out: io::StdoutLock<'static>,
    text: String,
}

impl Printer {
    fn print(&mut self, piece: &str) -> io::Result<()> {
        self.text.push_str(piece);
        if self.quiet || piece.is_empty() {
            return Ok(());
        }
        self.out.write_all(piece.as_bytes())?;
        self.out.flush()
    }
}

/// One text in the making.
struct Run<'a> {
    model: LanguageModel,
    sampler: Sampler,
    stream: TextStream<'a>,
    printer: Printer,
    made: Vec<u32>,
    /// Tokens of each part of the prompt that ran.
    parts: Vec<usize>,
    clock: Clock,
    engine: &'a Engine,
}

impl Run<'_> {
    /// Runs the prompt, in parts that fit, and gives the logits of the first token.
    fn prefill(&mut self, prompt: &[u32]) -> Outcome<Vec<f32>> {
        let mut logits = Vec::new();
        for part in prompt.chunks(self.model.part(prompt.len())?) {
            logits = self.model.feed(part)?;
            self.note_part(part.len());
        }
        Ok(logits)
    }

    /// Notes the time of a part of the prompt.
    fn note_part(&mut self, tokens: usize) {
        let lap = self.clock.lap();
        self.parts.push(tokens);
        if self.parts.len() == 1 {
            let compiled = self.engine.pipeline_time();
            self.clock.times.pipelines = compiled;
            self.clock.times.first_run = lap.saturating_sub(compiled);
        } else {
            self.clock.times.prefill += lap;
        }
    }

    /// Makes tokens until something ends the text. The token that ends it is kept, its text is not printed.
    fn decode(&mut self, mut logits: Vec<f32>, most: usize, end: &[u32]) -> Outcome<Stop> {
        loop {
            if self.made.len() >= most {
                return Ok(Stop::MaxNewTokens);
            }
            let token = self.sampler.pick(&logits).map_err(|why| {
                Failure::new(format!("step {} (position {}): {why}", self.made.len(), self.model.position))
            })?;
            self.made.push(token);
            if self.made.len() == 1 {
                self.clock.times.first_token = self.clock.begun.elapsed();
            }
            if end.contains(&token) {
                return Ok(Stop::EndOfText);
            }
            let piece = self.stream.push(token).map_err(Failure::new)?;
            self.printer.print(&piece)?;
            if self.made.len() >= most {
                return Ok(Stop::MaxNewTokens);
            }
            if self.model.signature.context.is_some_and(|c| self.model.position >= c) {
                return Ok(Stop::ContextFull);
            }
            self.clock.lap();
            logits = self.model.feed(&[token])?;
            let lap = self.clock.lap();
            if self.made.len() == 1 {
                self.clock.times.first_decode = lap;
            } else {
                self.clock.times.decode += lap;
            }
        }
    }

    fn finish(mut self, prompt: &[u32], stop: Stop, seed: u64, temperature: f64) -> Outcome<Report> {
        let rest = self.stream.finish().map_err(Failure::new)?;
        self.printer.print(&rest)?;
        Ok(Report {
            text: self.printer.text,
            prompt: prompt.to_vec(),
            made: self.made,
            stop,
            seed: (temperature > 0.0).then_some(seed),
            times: self.clock.times,
            parts: self.parts,
            context: self.model.signature.context,
            memory: self.model.memory(),
            adapter: describe(self.engine.adapter()),
            adapter_json: adapter_json(self.engine.adapter()),
            pipelines: self.engine.pipelines(),
        })
    }
}

/// What is said at the end.
struct Report {
    text: String,
    prompt: Vec<u32>,
    made: Vec<u32>,
    stop: Stop,
    seed: Option<u64>,
    times: Times,
    /// Tokens of each run of the prompt.
    parts: Vec<usize>,
    context: Option<usize>,
    memory: [u64; 4],
    adapter: String,
    adapter_json: Json,
    pipelines: usize,
}

/// Tokens per second; `None` where nothing was measured.
fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

impl Report {
    /// Prompt tokens per second: without compiling; over the runs after the first where there are any.
    fn prefill_rate(&self) -> Option<f64> {
        if self.parts.len() > 1 {
            rate(self.parts[1..].iter().sum(), self.times.prefill)
        } else {
            rate(self.prompt.len(), self.times.first_run)
        }
    }

    /// Tokens per second after the first run of a single token.
    fn decode_rate(&self) -> Option<f64> {
        rate(self.decode_runs().saturating_sub(1), self.times.decode)
    }

    /// Runs of a single token: the last token made is not run.
    fn decode_runs(&self) -> usize {
        self.made.len().saturating_sub(1)
    }

    fn json(&self) -> Json {
        let t = &self.times;
        let [weights, state, arena, staging] = self.memory;
        json!({
            "text": self.text,
            "prompt_ids": self.prompt,
            "prefill_parts": self.parts,
            "ids": self.made,
            "stop": self.stop.name(),
            "seed": self.seed,
            "seconds": {
                "load": t.load.as_secs_f64(),
                "device": t.device.as_secs_f64(),
                "upload": t.upload.as_secs_f64(),
                "pipelines": t.pipelines.as_secs_f64(),
                "first_run": t.first_run.as_secs_f64(),
                "prefill": t.prefill.as_secs_f64(),
                "first_token": t.first_token.as_secs_f64(),
                "first_decode": t.first_decode.as_secs_f64(),
                "decode": t.decode.as_secs_f64(),
            },
            "tokens_per_second": {"prefill": self.prefill_rate(), "decode": self.decode_rate()},
            "memory": {
                "weights": weights, "state": state, "arena": arena, "staging": staging,
                "total": self.memory.iter().sum::<u64>(),
            },
            "pipelines": self.pipelines,
            "adapter": self.adapter_json,
        })
    }

    fn text(&self) -> String {
        let t = &self.times;
        let rows = [
            ("adapter", self.adapter.clone()),
            ("stopped", self.stopped()),
            ("prefill", format!("{} tokens{}", self.prompt.len(), per_second(self.prefill_rate()))),
            ("decode", format!("{} tokens{}", self.made.len(), per_second(self.decode_rate()))),
            ("first token", format!("{} = {}", show::time(t.first_token), self.split())),
            ("first decode", show::time(t.first_decode)),
            ("memory", self.memory_text()),
        ];
        let skip = |name: &str| name == "first decode" && t.first_decode.is_zero();
        let rows: Vec<Vec<String>> =
            rows.into_iter().filter(|(name, _)| !skip(name)).map(|(name, value)| vec![name.into(), value]).collect();
        show::table(&rows, &[])
    }

    fn stopped(&self) -> String {
        let why = match (self.stop, self.context) {
            (Stop::EndOfText, _) => "at the end of the text".to_string(),
            (Stop::MaxNewTokens, _) => "after --max-new-tokens".to_string(),
            (Stop::ContextFull, Some(most)) => format!("the model's context of {most} tokens is full"),
            (Stop::ContextFull, None) => "the model's context is full".to_string(),
        };
        self.seed.map_or(why.clone(), |seed| format!("{why}; --seed {seed} repeats this text"))
    }

    /// The parts of the time to the first token.
    fn split(&self) -> String {
        let t = &self.times;
        let mut parts = vec![
            ("load", t.load),
            ("device", t.device),
            ("upload", t.upload),
            ("pipelines", t.pipelines),
            ("first run", t.first_run),
        ];
        if self.parts.len() > 1 {
            parts.push(("prefill", t.prefill));
        }
        parts.iter().map(|(name, d)| format!("{name} {}", show::time(*d))).collect::<Vec<_>>().join(" + ")
    }

    fn memory_text(&self) -> String {
        let [weights, state, arena, staging] = self.memory.map(show::bytes);
        let total = show::bytes(self.memory.iter().sum());
        format!("{total} = weights {weights} + state {state} + arena {arena} + staging {staging}")
    }
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(String::new, |r| format!(", {r:.1} per second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            text: "hi".into(),
            prompt: vec![1, 2, 3],
            made: vec![4, 5, 6],
            stop: Stop::ContextFull,
            seed: None,
            times: Times {
                first_run: Duration::from_secs(1),
                prefill: Duration::from_secs(2),
                decode: Duration::from_millis(100),
                ..Times::default()
            },
            parts: vec![3],
            context: Some(6),
            memory: [1024, 2048, 0, 1],
            adapter: "a (vulkan, Cpu)".into(),
            adapter_json: Json::Null,
            pipelines: 9,
        }
    }

    #[test]
    fn rates_leave_compiling_out() {
        let mut r = report();
        assert_eq!(r.prefill_rate(), Some(3.0));
        // Three tokens are made by two runs of one token; the first of them is apart.
        assert_eq!(r.decode_rate(), Some(10.0));
        r.parts = vec![2, 1];
        assert_eq!(r.prefill_rate(), Some(0.5));
        r.made.truncate(1);
        assert_eq!(r.decode_rate(), None);
    }

    #[test]
    fn the_report_says_why_it_stopped() {
        let mut r = report();
        assert!(r.text().contains("context of 6 tokens is full"), "{}", r.text());
        assert_eq!(r.json()["stop"], "context_full");
        assert_eq!(r.json()["memory"]["total"], 3073);
        r.seed = Some(5);
        assert!(r.text().contains("--seed 5"));
    }

    #[test]
    fn numbers_have_their_ranges() {
        assert!(temperature("-1").is_err() && temperature("NaN").is_err() && temperature("0.8").is_ok());
        assert!(probability("0").is_err() && probability("1.5").is_err() && probability("0.9").is_ok());
    }
}
