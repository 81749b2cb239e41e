//! A tokenizer's folder: its tokenizer, special tokens, chat template and end-of-text tokens.

use std::path::{Path, PathBuf};

use lowtide::Model;
use lowtide::program::pte::PlanValue;
use serde_json::Value as Json;
use tokenizers::Tokenizer;

use crate::failure::{Failure, Outcome};

/// What the files of a folder say.
pub(crate) struct TokenizerFolder {
    pub(crate) tokenizer: Tokenizer,
    dir: PathBuf,
    /// `tokenizer_config.json`, `special_tokens_map.json`, `generation_config.json`, `config.json`; null where absent.
    config: Json,
    special: Json,
    generation: Json,
    model: Json,
}

impl TokenizerFolder {
    /// Reads a folder; without one, the folder of the program or its subfolder `tokenizer`.
    pub(crate) fn open(given: Option<&Path>, program: &Path) -> Outcome<Self> {
        let dir = locate(given, program)?;
        let file = dir.join("tokenizer.json");
        let tokenizer = Tokenizer::from_file(&file).map_err(|e| Failure::file(&file, e))?;
        let read = |name: &str| optional_json(&dir.join(name));
        Ok(Self {
            tokenizer,
            config: read("tokenizer_config.json")?,
            special: read("special_tokens_map.json")?,
            generation: read("generation_config.json")?,
            model: read("config.json")?,
            dir,
        })
    }

    /// Tokens of a text; `special` adds what the tokenizer puts around one, such as a first token.
    pub(crate) fn encode(&self, text: &str, special: bool) -> Outcome<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, special).map_err(|e| Failure::new(format!("the prompt: {e}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Tokens that end a text: all that the folder and the program name.
    pub(crate) fn end_tokens(&self, model: &Model) -> Vec<u32> {
        let mut ids = Vec::new();
        for config in [&self.generation, &self.model, &self.model["text_config"]] {
            ids.extend(numbers(&config["eos_token_id"]));
        }
        for config in [&self.config, &self.special] {
            ids.extend(token_text(&config["eos_token"]).and_then(|t| self.tokenizer.token_to_id(&t)));
        }
        ids.extend(named_by_program(model));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The text of a special token such as `bos_token`, for chat templates.
    pub(crate) fn special_token(&self, name: &str) -> Option<String> {
        token_text(&self.config[name]).or_else(|| token_text(&self.special[name]))
    }

    /// The chat template.
    pub(crate) fn chat_template(&self) -> Outcome<String> {
        let file = self.dir.join("chat_template.jinja");
        if file.is_file() {
            return std::fs::read_to_string(&file).map_err(|e| Failure::file(&file, e));
        }
        template(&self.config["chat_template"]).ok_or_else(|| {
            Failure::new(format!(
                "{} has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json); \
                 without --chat the prompt is continued as it is",
                self.dir.display()
            ))
        })
    }
}

fn locate(given: Option<&Path>, program: &Path) -> Outcome<PathBuf> {
    if let Some(path) = given {
        // The file itself may be named, too.
        let dir = if path.is_file() { path.parent().unwrap_or(Path::new("")) } else { path };
        return Ok(dir.to_path_buf());
    }
    let dir = program.parent().unwrap_or(Path::new(""));
    let places = [dir.to_path_buf(), dir.join("tokenizer")];
    places.into_iter().find(|d| d.join("tokenizer.json").is_file()).ok_or_else(|| {
        Failure::usage(format!(
            "there is no tokenizer.json beside {}: give its folder by --tokenizer",
            program.display()
        ))
    })
}

fn optional_json(path: &Path) -> Outcome<Json> {
    if !path.is_file() {
        return Ok(Json::Null);
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, e))?;
    serde_json::from_str(&text).map_err(|e| Failure::file(path, e))
}

/// A number or a list of numbers.
fn numbers(v: &Json) -> Vec<u32> {
    let one = |v: &Json| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match v {
        Json::Array(list) => list.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// A token given as text or as an object with its text.
fn token_text(v: &Json) -> Option<String> {
    v.as_str().or_else(|| v["content"].as_str()).map(String::from)
}

/// A template, or the one called `default` in a list of named ones.
fn template(v: &Json) -> Option<String> {
    match v {
        Json::String(text) => Some(text.clone()),
        Json::Array(list) => {
            let default = list.iter().find(|t| t["name"] == "default").or(list.first())?;
            default["template"].as_str().map(String::from)
        }
        _ => None,
    }
}

/// What the constant method `get_eos_ids` or `get_eos_id` returns.
fn named_by_program(model: &Model) -> Vec<u32> {
    let mut ids = Vec::new();
    for name in ["get_eos_ids", "get_eos_id"] {
        let Ok((_, m)) = model.method(name) else { continue };
        for value in m.outputs.iter().filter_map(|&o| m.values.get(o)) {
            match value {
                PlanValue::Int(v) => ids.extend(u32::try_from(*v)),
                PlanValue::Ints(list) => ids.extend(list.iter().filter_map(|&v| u32::try_from(v).ok())),
                _ => {}
            }
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide::program::build::ProgramBuilder;
    use serde_json::json;

    #[test]
    fn end_tokens_are_a_number_or_a_list() {
        assert_eq!(numbers(&json!(2)), [2]);
        assert_eq!(numbers(&json!([128001, 128009])), [128001, 128009]);
        assert_eq!(numbers(&Json::Null), [0u32; 0]);
        assert_eq!(numbers(&json!(-1)), [0u32; 0]);
    }

    #[test]
    fn tokens_are_texts_or_objects() {
        assert_eq!(token_text(&json!("</s>")).as_deref(), Some("</s>"));
        assert_eq!(token_text(&json!({"content": "</s>", "lstrip": false})).as_deref(), Some("</s>"));
        assert_eq!(token_text(&Json::Null), None);
    }

    #[test]
    fn the_default_of_several_templates_is_taken() {
        let list = json!([{"name": "tool_use", "template": "b"}, {"name": "default", "template": "a"}]);
        assert_eq!(template(&list).as_deref(), Some("a"));
        assert_eq!(template(&json!("c")).as_deref(), Some("c"));
        assert_eq!(template(&Json::Null), None);
    }

    #[test]
    fn a_program_may_name_end_tokens() {
        let mut b = ProgramBuilder::new();
        b.constant_method("get_eos_ids", PlanValue::Ints(vec![5, -1]));
        b.constant_method("get_eos_id", PlanValue::Int(7));
        let model = Model::from_bytes(b.build().unwrap()).unwrap();
        assert_eq!(named_by_program(&model), [5, 7]);
    }

    #[test]
    fn the_folder_of_the_shipped_model_is_found() {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/kjv-3m/model.pte");
        let folder = TokenizerFolder::open(None, &program).unwrap();
        assert_eq!(folder.special_token("bos_token").as_deref(), Some("<|begin_of_text|>"));
        assert_eq!(folder.encode("There was", true).unwrap()[0], 0);
        assert!(folder.chat_template().unwrap_err().message.contains("no chat template"));
        let named = TokenizerFolder::open(Some(&program.with_file_name("tokenizer.json")), Path::new("x.pte"));
        assert!(named.is_ok());
        assert_eq!(TokenizerFolder::open(None, Path::new("nowhere/x.pte")).err().map(|f| f.code), Some(2));
    }
}
