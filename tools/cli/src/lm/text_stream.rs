//! From tokens to text, a piece at a time: only whole characters leave.
//!
//! A token may end inside of a character, and a decoder shows the bytes that it cannot read yet as U+FFFD.
//! The text of a window of tokens is decoded anew for each token, and what is stable of it leaves. The
//! window begins with tokens of the prompt, because some decoders strip a space at the start.

use tokenizers::Tokenizer;

/// A byte sequence of UTF-8 lacks at most three bytes; a decoder may show each as one of these.
const UNREAD: char = '\u{FFFD}';
const MOST_UNREAD: usize = 3;
/// Tokens of the window that are kept as context when it moves.
const CONTEXT: usize = 8;
/// Tokens in the window before it moves.
const WINDOW: usize = 64;

/// Decodes tokens as they come.
pub(crate) struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    window: Vec<u32>,
    /// The part of the window's text that has left.
    sent: String,
}

impl<'a> TextStream<'a> {
    /// A stream after a prompt.
    ///
    /// # Errors
    /// When the prompt's tokens do not decode.
    pub(crate) fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self, String> {
        let window = prompt[prompt.len().saturating_sub(CONTEXT)..].to_vec();
        let mut stream = Self { tokenizer, window, sent: String::new() };
        stream.sent = stream.decode()?;
        Ok(stream)
    }

    fn decode(&self) -> Result<String, String> {
        self.tokenizer.decode(&self.window, true).map_err(|e| format!("decoding tokens: {e}"))
    }

    /// The text that one more token completes; often empty.
    ///
    /// # Errors
    /// When the token does not decode.
    pub(crate) fn push(&mut self, token: u32) -> Result<String, String> {
        self.window.push(token);
        let text = self.decode()?;
        let piece = self.take(stable(&text));
        if self.sent == text && self.window.len() >= WINDOW {
            self.shorten()?;
        }
        Ok(piece)
    }

    /// What is left at the end, unreadable bytes as U+FFFD.
    ///
    /// # Errors
    /// When the tokens do not decode.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        let text = self.decode()?;
        Ok(self.take(&text))
    }

    /// The part of `text` that has not left, when what has left is its beginning.
    fn take(&mut self, text: &str) -> String {
        match text.strip_prefix(self.sent.as_str()) {
            Some(piece) if !piece.is_empty() => {
                let piece = piece.to_string();
                self.sent = text.to_string();
                piece
            }
            _ => String::new(),
        }
    }

    /// Forgets tokens whose text has left, where that cuts no character.
    fn shorten(&mut self) -> Result<(), String> {
        let long = self.window.clone();
        self.window.drain(..long.len() - CONTEXT);
        let text = self.decode()?;
        if self.sent.ends_with(&text) && !text.contains(UNREAD) {
            self.sent = text;
        } else {
            self.window = long;
        }
        Ok(())
    }
}

/// `text` without what may be the start of a character at its end.
fn stable(text: &str) -> &str {
    let mut end = text.len();
    for (at, c) in text.char_indices().rev().take(MOST_UNREAD) {
        if c != UNREAD {
            break;
        }
        end = at;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens are single bytes of a byte-level alphabet; a space is `Ġ`.
    fn byte_level() -> Tokenizer {
        let mut vocab = serde_json::Map::new();
        for b in 0..=255u32 {
            // The alphabet of byte-level encodings: printable Latin-1 stays, the rest moves up from U+0100.
            let kept = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
            let moved = (0..b).filter(|&x| !kept(x)).count() as u32;
            let c = char::from_u32(if kept(b) { b } else { 256 + moved }).unwrap();
            vocab.insert(c.to_string(), b.into());
        }
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        Tokenizer::from_bytes(json.to_string()).unwrap()
    }

    /// Words with `▁` for spaces, and bytes as `<0xE2>`.
    fn byte_fallback() -> Tokenizer {
        let mut vocab = serde_json::Map::new();
        for b in 0..=255u32 {
            vocab.insert(format!("<0x{b:02X}>"), b.into());
        }
        for (i, word) in ["\u{2581}in", "\u{2581}the", "\u{2581}beginning", "<unk>"].iter().enumerate() {
            vocab.insert((*word).into(), (256 + i as u32).into());
        }
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, "pre_tokenizer": null,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>", "byte_fallback": true},
        });
        Tokenizer::from_bytes(json.to_string()).unwrap()
    }

    fn pieces(t: &Tokenizer, prompt: &[u32], tokens: impl IntoIterator<Item = u32>) -> Vec<String> {
        let mut s = TextStream::after(t, prompt).unwrap();
        let mut out: Vec<String> = tokens.into_iter().map(|id| s.push(id).unwrap()).collect();
        out.push(s.finish().unwrap());
        out
    }

    fn bytes(text: &str) -> impl Iterator<Item = u32> + '_ {
        text.bytes().map(u32::from)
    }

    #[test]
    fn a_character_leaves_when_its_last_byte_comes() {
        let t = byte_level();
        assert_eq!(pieces(&t, &[], bytes("a€b")), ["a", "", "", "€", "b", ""]);
        assert_eq!(pieces(&t, &[], bytes("🙂")), ["", "", "", "🙂", ""]);
    }

    #[test]
    fn what_never_becomes_a_character_is_replaced() {
        let t = byte_level();
        assert_eq!(pieces(&t, &[], [0xE2, 0x82, 0x61]), ["", "", "\u{FFFD}a", ""]);
        assert_eq!(pieces(&t, &[], [0x61, 0xE2]), ["a", "", "\u{FFFD}"]);
        // Many of them leave before the end of the text.
        let many = pieces(&t, &[], std::iter::repeat_n(0xFF, 40));
        assert_eq!(many.concat().chars().count(), 40);
        assert!(many[39].chars().count() <= MOST_UNREAD);
    }

    #[test]
    fn long_texts_stream_whole() {
        let text = "In the beginning — 元始に、神は天と地とを創造された。 🙂 ".repeat(40);
        for t in [byte_level(), byte_fallback()] {
            let out = pieces(&t, &[], bytes(&text));
            // The fallback decoder strips one space at the start of a text only.
            assert_eq!(out.concat(), text);
            assert_eq!(out.last().unwrap(), "");
        }
    }

    #[test]
    fn the_window_stays_short() {
        let t = byte_level();
        let mut s = TextStream::after(&t, &[]).unwrap();
        for id in bytes(&"abc ".repeat(500)) {
            s.push(id).unwrap();
            assert!(s.window.len() <= WINDOW);
        }
    }

    #[test]
    fn a_space_after_the_prompt_is_kept() {
        let t = byte_fallback();
        assert_eq!(pieces(&t, &[256], [257, 258]), [" the", " beginning", ""]);
        assert_eq!(pieces(&t, &[], [256, 257]), ["in", " the", ""]);
    }

    #[test]
    fn fallback_bytes_become_characters() {
        // The decoder shows a run of bytes as a whole as unreadable until it is complete.
        let t = byte_fallback();
        assert_eq!(pieces(&t, &[256], bytes("€é")).concat(), "€é");
        assert_eq!(pieces(&t, &[256], [0xE2, 0x82, 257]).concat(), "\u{FFFD}\u{FFFD} the");
    }
}
