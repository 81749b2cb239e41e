//! Chat templates: Jinja as Hugging Face tokenizers use it.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde_json::json;

/// Renders a template with one message of the user, up to where the model answers.
///
/// # Errors
/// When the template is not well formed, or refuses the message.
pub(crate) fn render(
    template: &str,
    message: &str,
    special: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_filter("tojson", tojson);
    let template = without_generation_blocks(template);
    let messages = json!([{"role": "user", "content": message}]);
    let token = |name: &str| special(name).unwrap_or_default();
    let values = context! {
        messages => Value::from_serialize(&messages),
        add_generation_prompt => true,
        bos_token => token("bos_token"),
        eos_token => token("eos_token"),
        unk_token => token("unk_token"),
        pad_token => token("pad_token"),
    };
    let template = env.template_from_str(&template).map_err(|e| describe(&e))?;
    template.render(values).map_err(|e| describe(&e))
}

fn describe(e: &Error) -> String {
    let line = e.line().map_or_else(String::new, |n| format!(", line {n}"));
    format!("the chat template{line}: {e}")
}

/// `{% generation %}` marks what a model is trained on and prints its body as it is: so does an IF that always holds.
fn without_generation_blocks(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let (tag, after) = rest[start..].split_at(length + 2);
        let word = tag.trim_matches(|c: char| "{}%-+".contains(c) || c.is_whitespace());
        out += &rest[..start];
        match word {
            "generation" => out += &tag.replace(word, "if true"),
            "endgeneration" => out += &tag.replace(word, "endif"),
            _ => out += tag,
        }
        rest = after;
    }
    out + rest
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// As Python's `json.dumps` without escapes for characters outside of ASCII, which is what the tokenizers' own filter does.
fn tojson(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let value = serde_json::to_value(&value).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    let mut out = String::new();
    dump(&value, indent, 0, &mut out);
    Ok(Value::from_safe_string(out))
}

fn dump(value: &serde_json::Value, indent: Option<usize>, depth: usize, out: &mut String) {
    use serde_json::Value as Json;
    let (open, close, count) = match value {
        Json::Array(list) => ('[', ']', list.len()),
        Json::Object(map) => ('{', '}', map.len()),
        other => return out.push_str(&other.to_string()),
    };
    let line = |out: &mut String, depth: usize| {
        if let Some(n) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(n * depth));
        }
    };
    out.push(open);
    for i in 0..count {
        if i > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(out, depth + 1);
        match value {
            Json::Array(list) => dump(&list[i], indent, depth + 1, out),
            Json::Object(map) => {
                if let Some((key, item)) = map.iter().nth(i) {
                    out.push_str(&format!("{}: ", Json::from(key.as_str())));
                    dump(item, indent, depth + 1, out);
                }
            }
            _ => {}
        }
    }
    if count > 0 {
        line(out, depth);
    }
    out.push(close);
}

/// The date in UTC by `strftime` codes; templates ask for day, month and year.
fn strftime_now(format: String) -> Result<String, Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    strftime(&format, seconds).map_err(|code| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: the code %{code} is not supported"))
    })
}

fn strftime(format: &str, seconds: u64) -> Result<String, char> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (name, weekday) = (MONTHS[month as usize - 1], DAYS[(days % 7) as usize]);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next().unwrap_or('%') {
            'Y' => out += &year.to_string(),
            'm' => out += &format!("{month:02}"),
            'd' => out += &format!("{day:02}"),
            'B' => out += name,
            'b' => out += &name[..3],
            'A' => out += weekday,
            'a' => out += &weekday[..3],
            'H' => out += &format!("{:02}", seconds / 3600 % 24),
            'M' => out += &format!("{:02}", seconds / 60 % 60),
            'S' => out += &format!("{:02}", seconds % 60),
            '%' => out.push('%'),
            other => return Err(other),
        }
    }
    Ok(out)
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March.
    let m = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn special(name: &str) -> Option<String> {
        (name == "bos_token").then(|| "<s>".to_string())
    }

    #[test]
    fn a_chat_ml_template_renders() {
        let t = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
                 {{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}\
                 {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
        assert_eq!(
            render(t, "Hi", special).unwrap(),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn python_methods_namespaces_and_loop_controls_work() {
        let t = "{%- set ns = namespace(n=0) -%}\n{{ bos_token }}{% for m in messages %}\n    \
                 {%- set ns.n = ns.n + 1 %}\n{{ m.content.strip().upper() }}{% break %}{% endfor %}\n{{ ns.n }}";
        assert_eq!(render(t, " hi ", special).unwrap(), "<s>HI1");
    }

    #[test]
    fn messages_are_written_as_json() {
        let t = "{{ messages | tojson }}|{{ messages[0] | tojson(indent=2) }}|{{ [] | tojson }}";
        let expect = "[{\"content\": \"é <b>\", \"role\": \"user\"}]|{\n  \"content\": \"é <b>\",\n  \
                      \"role\": \"user\"\n}|[]";
        assert_eq!(render(t, "é <b>", special).unwrap(), expect);
    }

    #[test]
    fn a_template_can_refuse() {
        let e = render("{{ raise_exception('no user messages') }}", "x", special).unwrap_err();
        assert!(e.contains("no user messages"), "{e}");
        let e = render("\n{% if %}", "x", special).unwrap_err();
        assert!(e.contains("line 2"), "{e}");
    }

    #[test]
    fn generation_blocks_print_their_body() {
        let t = "a {%- generation -%} b {% endgeneration %}\n{% if true %}c{% endif %}";
        assert_eq!(render(t, "x", special).unwrap(), "ab c");
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(strftime("%d %b %Y", 0).unwrap(), "01 Jan 1970");
        assert_eq!(strftime("%A %d %B %Y %H:%M:%S", 951_782_400).unwrap(), "Tuesday 29 February 2000 00:00:00");
        assert_eq!(strftime("%Y-%m-%d 100%%", 1_735_689_599).unwrap(), "2024-12-31 100%");
        assert_eq!(strftime("%q", 0), Err('q'));
    }
}
