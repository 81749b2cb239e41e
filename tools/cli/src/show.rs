//! Figures, tables and progress for people.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lowtide::dtype::DType;
use lowtide::program::DimBound;

/// `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// `12.3 MiB`, and whole bytes below one KiB.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1.234 s`, or milliseconds below one second.
pub(crate) fn time(d: Duration) -> String {
    let s = d.as_secs_f64();
    if s < 1.0 { format!("{:.1} ms", s * 1e3) } else { format!("{s:.3} s") }
}

/// `f32 [1, 0..128, 2048]`; a dimension without an upper bound ends in `..`.
pub(crate) fn tensor(dtype: Option<DType>, dims: &[DimBound]) -> String {
    let dims: Vec<String> = dims.iter().map(dim).collect();
    format!("{} [{}]", dtype.map_or("?", DType::name), dims.join(", "))
}

fn dim(d: &DimBound) -> String {
    match d.max {
        Some(max) if max == d.min => max.to_string(),
        Some(max) => format!("{}..{max}", d.min),
        None => format!("{}..", d.min),
    }
}

/// Rows in columns; the first row is the head. Columns named in `right` align to the right.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, text)| (text, widths[c], right.contains(&c)))
            .map(|(text, w, right)| if right { format!("{text:>w$}") } else { format!("{text:w$}") })
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A bar that counts bytes on stderr; hidden where stderr is no terminal.
pub(crate) fn byte_bar(what: &'static str) -> ProgressBar {
    bar("{msg} {bar:30} {bytes}/{total_bytes}", what)
}

/// A bar that counts things on stderr; hidden where stderr is no terminal.
pub(crate) fn count_bar(what: impl Into<String>, total: usize) -> ProgressBar {
    let bar = bar("{bar:30} {pos}/{len} {msg}", what);
    bar.set_length(total as u64);
    bar
}

/// Says on stderr what takes a moment; hidden where stderr is no terminal.
pub(crate) fn spinner(what: impl Into<String>) -> ProgressBar {
    let bar = bar("{spinner} {msg}", what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn bar(template: &str, what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style).with_message(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!((grouped(7).as_str(), grouped(1234567).as_str()), ("7", "1,234,567"));
        assert_eq!(
            (bytes(1023).as_str(), bytes(1536).as_str(), bytes(3 << 30).as_str()),
            ("1023 B", "1.5 KiB", "3.0 GiB")
        );
        assert_eq!(time(Duration::from_millis(1500)), "1.500 s");
        assert_eq!(time(Duration::from_micros(1500)), "1.5 ms");
    }

    #[test]
    fn shapes_show_their_bounds() {
        let dims = [DimBound::fixed(1), DimBound { min: 0, max: Some(128) }, DimBound { min: 2, max: None }];
        assert_eq!(tensor(Some(DType::F32), &dims), "f32 [1, 0..128, 2..]");
    }

    #[test]
    fn columns_align() {
        let rows = [vec!["a".to_string(), "n".into()], vec!["long".into(), "10".into()], vec!["b".into(), "2".into()]];
        assert_eq!(table(&rows, &[1]), "a      n\nlong  10\nb      2\n");
    }
}
