//! Loads a program, plans its memory before any run, and asks it for the next token of a text.

use lowtide::{BindOptions, Engine, EngineOptions, Item, Model, SessionOptions, Tensor, Want};

fn main() -> lowtide::Result<()> {
    // Weights stay on disk until the program is bound to a device.
    let model = Model::open("tests/models/kjv-3m/model.pte")?;
    let engine = Engine::new(&EngineOptions::default())?;
    let program = engine.bind(&model, BindOptions::default())?;

    let plan = program.plan("forward", Some(&[vec![1, 6], vec![6]]))?;
    println!("a run of 6 tokens takes {} bytes on {}", plan.peak_bytes, engine.adapter().name);

    // A session holds one user's state. Many can share a bound program.
    let mut session = program.session(SessionOptions::default())?;
    let tokens = Tensor::from_i64(&[1, 6], &[0, 1742, 369, 261, 1355, 403]);
    let positions = Tensor::from_i64(&[6], &[0, 1, 2, 3, 4, 5]);
    let inputs = [Item::Tensor(tokens), Item::Tensor(positions)];

    // Only the last row of the logits is read back.
    let outputs = session.run_with("forward", &inputs, &[Want::LastRow])?;
    if let Some(Item::Tensor(logits)) = outputs.first() {
        let best = logits.to_f32().into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        println!("the next token is {:?}", best.map(|(token, _)| token));
    }
    Ok(())
}
