//! `lowtide ops`: the op table.

use lowtide::op::{FieldRow, Need, Op};
use serde_json::{Value as Json, json};

use crate::failure::Outcome;
use crate::show;

/// Lists the ops of the delegate's format and which of them run
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the table that the README holds
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    if args.json {
        println!("{:#}", as_json());
    } else if args.markdown {
        print!("{}", markdown());
    } else {
        print!("{}", text());
    }
    Ok(())
}

fn written() -> usize {
    Op::all().filter(|op| op.row().kernel.written).count()
}

fn summary() -> String {
    format!("{} of {} ops run; a program that needs another is refused when it is opened.", written(), Op::all().len())
}

/// A field's name; in brackets when a file may leave it out.
fn field(f: &FieldRow) -> String {
    match f.need {
        Need::Required => f.name.to_string(),
        Need::Optional | Need::Default(_) => format!("[{}]", f.name),
    }
}

fn text() -> String {
    let mut rows: Vec<Vec<String>> = vec![["tag", "op", "runs", "fields"].map(String::from).into()];
    rows.extend(Op::all().map(|op| {
        let fields: Vec<String> = op.row().fields.iter().map(field).collect();
        let runs = if op.row().kernel.written { "yes" } else { "no" };
        vec![op.tag().to_string(), op.name().into(), runs.into(), fields.join(" ")]
    }));
    format!("{}{}\n", show::table(&rows, &[0]), summary())
}

fn markdown() -> String {
    let mut out = format!("{}\n\n| tag | op | fields | runs |\n|---:|---|---|---|\n", summary());
    for op in Op::all() {
        let fields: Vec<String> = op.row().fields.iter().map(field).collect();
        let fields = if fields.is_empty() { String::new() } else { format!("`{}`", fields.join(" ")) };
        let runs = if op.row().kernel.written { "yes" } else { "no" };
        out += &format!("| {} | {} | {fields} | {runs} |\n", op.tag(), op.name());
    }
    out
}

fn as_json() -> Json {
    let ops: Vec<Json> = Op::all()
        .map(|op| {
            let fields: Vec<Json> = op
                .row()
                .fields
                .iter()
                .map(|f| {
                    json!({"name": f.name, "kind": format!("{:?}", f.kind), "access": format!("{:?}", f.access),
                    "required": f.need == Need::Required})
                })
                .collect();
            json!({"tag": op.tag(), "name": op.name(), "runs": op.row().kernel.written, "fields": fields})
        })
        .collect();
    json!({"ops": ops, "running": written()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_is_one_row() {
        assert_eq!(markdown().lines().filter(|l| l.starts_with("| ")).count(), Op::all().len() + 1);
        assert_eq!(text().lines().count(), Op::all().len() + 2);
        assert!(markdown().contains("| 4 | ItemInt | `x out` | "), "{}", markdown());
        assert!(markdown().contains("[bias]"));
    }
}
