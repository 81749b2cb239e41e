//! Choosing a token from logits.

use std::cmp::Ordering;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How to choose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// 0 takes the likeliest token; above, logits are divided by it.
    pub(crate) temperature: f64,
    /// Chooses among this many likeliest tokens.
    pub(crate) top_k: Option<usize>,
    /// Chooses among the likeliest tokens that together reach this probability.
    pub(crate) top_p: Option<f64>,
}

/// Chooses tokens. The same seed and logits give the same choices, on every platform.
pub(crate) struct Sampler {
    settings: Settings,
    random: ChaCha8Rng,
    /// Candidates, likeliest first where an order is needed.
    order: Vec<u32>,
    weights: Vec<f64>,
}

impl Sampler {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        Self { settings, random: ChaCha8Rng::seed_from_u64(seed), order: Vec::new(), weights: Vec::new() }
    }

    /// The next token.
    ///
    /// # Errors
    /// When a logit is NaN or positively infinite, or no token has a finite one.
    pub(crate) fn pick(&mut self, logits: &[f32]) -> Result<u32, String> {
        check(logits)?;
        if self.settings.temperature == 0.0 {
            return Ok(likeliest(logits));
        }
        self.candidates(logits);
        self.weigh(logits);
        self.cut();
        Ok(self.draw())
    }

    /// Fills `order`: all tokens, or the `top_k` likeliest; sorted where `top_p` needs it.
    fn candidates(&mut self, logits: &[f32]) {
        let likelier = |&a: &u32, &b: &u32| by_logit(logits, a, b);
        self.order.clear();
        self.order.extend(0..logits.len() as u32);
        if let Some(k) = self.settings.top_k.filter(|&k| k < logits.len()) {
            self.order.select_nth_unstable_by(k.max(1) - 1, likelier);
            self.order.truncate(k.max(1));
        }
        if self.settings.top_k.is_some() || self.settings.top_p.is_some() {
            self.order.sort_unstable_by(likelier);
        }
    }

    /// Fills `weights`: probabilities of the candidates, up to a common factor.
    fn weigh(&mut self, logits: &[f32]) {
        let of = |t: u32| f64::from(logits[t as usize]);
        let most = self.order.iter().map(|&t| of(t)).fold(f64::NEG_INFINITY, f64::max);
        self.weights.clear();
        self.weights.extend(self.order.iter().map(|&t| ((of(t) - most) / self.settings.temperature).exp()));
    }

    /// Drops what lies beyond `top_p`. The token that reaches the probability stays.
    fn cut(&mut self) {
        let Some(p) = self.settings.top_p else { return };
        let total: f64 = self.weights.iter().sum();
        let mut sum = 0.0;
        let keep = self.weights.iter().position(|w| {
            sum += w;
            sum >= p * total
        });
        self.weights.truncate(keep.map_or(self.weights.len(), |last| last + 1));
    }

    fn draw(&mut self) -> u32 {
        let total: f64 = self.weights.iter().sum();
        // 53 random bits: a number from 0 up to, but never, 1.
        let unit = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut left = unit * total;
        for (&token, &w) in self.order.iter().zip(&self.weights) {
            left -= w;
            if left < 0.0 {
                return token;
            }
        }
        // Rounding may leave a remainder: the last candidate that has any weight.
        self.weights.iter().rposition(|&w| w > 0.0).map_or(self.order[0], |i| self.order[i])
    }
}

/// Larger logits first, equal ones by token.
fn by_logit(logits: &[f32], a: u32, b: u32) -> Ordering {
    logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b))
}

fn check(logits: &[f32]) -> Result<(), String> {
    if let Some(t) = logits.iter().position(|l| l.is_nan()) {
        return Err(format!("the logit of token {t} is NaN"));
    }
    if let Some(t) = logits.iter().position(|&l| l == f32::INFINITY) {
        return Err(format!("the logit of token {t} is infinite"));
    }
    if logits.iter().all(|&l| l == f32::NEG_INFINITY) {
        return Err(format!("none of {} logits is finite", logits.len()));
    }
    Ok(())
}

/// The token of the largest logit; among equal ones the lowest token.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, &l) in logits.iter().enumerate() {
        if l > logits[best] {
            best = i;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> Sampler {
        Sampler::new(Settings { temperature, top_k, top_p }, 7)
    }

    fn counts(mut s: Sampler, logits: &[f32]) -> Vec<usize> {
        let mut n = vec![0; logits.len()];
        for _ in 0..4000 {
            n[s.pick(logits).unwrap() as usize] += 1;
        }
        n
    }

    #[test]
    fn greedy_takes_the_lowest_of_equals() {
        assert_eq!(sampler(0.0, None, None).pick(&[1.0, 3.0, 3.0, 2.0]), Ok(1));
        assert_eq!(sampler(0.0, None, None).pick(&[-0.0, 0.0]), Ok(0));
        assert_eq!(sampler(0.0, None, None).pick(&[f32::NEG_INFINITY, -5.0]), Ok(1));
    }

    #[test]
    fn broken_logits_are_errors() {
        for t in [0.0, 1.0] {
            assert_eq!(sampler(t, None, None).pick(&[0.0, f32::NAN]), Err("the logit of token 1 is NaN".into()));
            assert!(sampler(t, None, None).pick(&[f32::INFINITY, 0.0]).unwrap_err().contains("token 0"));
            assert!(sampler(t, None, None).pick(&[f32::NEG_INFINITY; 2]).is_err());
            assert!(sampler(t, None, None).pick(&[]).is_err());
        }
    }

    #[test]
    fn draws_follow_the_softmax() {
        let n = counts(sampler(1.0, None, None), &[0.0, 3f32.ln(), f32::NEG_INFINITY]);
        assert_eq!(n[2], 0);
        assert!((0.70..0.80).contains(&(n[1] as f64 / 4000.0)), "{n:?}");
        // Half the temperature squares the odds: 9 to 1.
        let n = counts(sampler(0.5, None, None), &[0.0, 3f32.ln()]);
        assert!((0.87..0.93).contains(&(n[1] as f64 / 4000.0)), "{n:?}");
    }

    #[test]
    fn top_k_and_top_p_cut_the_tail() {
        let logits = [0.0, 2.0, 1.0, 2.0];
        let n = counts(sampler(1.0, Some(2), None), &logits);
        assert!(n[0] == 0 && n[2] == 0 && n[1] > 0 && n[3] > 0, "{n:?}");
        let n = counts(sampler(1.0, Some(1), None), &logits);
        assert_eq!(n[1], 4000);
        // Probabilities of about 0.40, 0.40, 0.15 and 0.05: two tokens reach 0.5.
        let n = counts(sampler(1.0, None, Some(0.5)), &logits);
        assert!(n[0] == 0 && n[2] == 0 && n[1] > 0 && n[3] > 0, "{n:?}");
        // The likeliest token stays however small the probability.
        assert_eq!(counts(sampler(1.0, None, Some(1e-9)), &logits)[1], 4000);
        assert!(counts(sampler(1.0, None, Some(1.0)), &logits).iter().all(|&c| c > 0));
    }

    #[test]
    fn a_seed_names_its_draws() {
        let logits: Vec<f32> = (0..50).map(|i| (i % 7) as f32).collect();
        let draw = |seed| {
            let mut s = Sampler::new(Settings { temperature: 1.0, ..Settings::default() }, seed);
            (0..20).map(|_| s.pick(&logits).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn tiny_temperatures_do_not_overflow() {
        assert_eq!(sampler(1e-300, None, None).pick(&[1.0, 5.0, f32::MIN]), Ok(1));
    }
}
