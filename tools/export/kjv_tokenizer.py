#!/usr/bin/env python3
"""Train the shipped model's byte-level BPE tokenizer and encode the corpus with it.

Reads the `.jsonl` files of `kjv_text.py` and writes, into `--out`, the files of a Hugging Face tokenizer folder
(`tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`, `generation_config.json`).  With `--ids DIR` it
also writes `train.bin`, `validation.bin` and `test.bin` for `kjv_train.py`: little-endian u16 token ids, each chapter as
`<|begin_of_text|> heading newline verse newline ... <|end_of_text|>`.
"""

import argparse
import json
from pathlib import Path

import numpy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCAB = 2048
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
BOS_ID, EOS_ID = 0, 1


def read_jsonl(path):
    """The chapters of one split."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def chapter_text(chapter):
    """One chapter as the model sees it: heading, then one verse a line."""
    return "\n".join([chapter["heading"], *chapter["verses"]]) + "\n"


def train_tokenizer(texts):
    """A byte-level BPE of `VOCAB` entries whose ids 0 and 1 are the two special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
            ),
        ]
    )
    assert (tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)) == (BOS_ID, EOS_ID)
    assert tokenizer.get_vocab_size() == VOCAB
    return tokenizer


def write_folder(tokenizer, out):
    """The files from which a generic loader learns the vocabulary and the bos and eos ids."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "eos_token": EOS,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 512,
        },
        "special_tokens_map.json": {"bos_token": BOS, "eos_token": EOS},
        "generation_config.json": {"bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "do_sample": False},
    }
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def encode_split(tokenizer, chapters):
    """Token ids of all chapters in one array."""
    ids = []
    for encoding in tokenizer.encode_batch([chapter_text(chapter) for chapter in chapters]):
        ids.extend([*encoding.ids, EOS_ID])
    return numpy.array(ids, dtype="<u2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder that kjv_text.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="tokenizer folder to write")
    parser.add_argument("--ids", type=Path, help="folder for the encoded splits")
    args = parser.parse_args()
    splits = {name: read_jsonl(args.text / f"{name}.jsonl") for name in ("train", "validation", "test")}
    tokenizer = train_tokenizer(chapter_text(chapter) for chapter in splits["train"])
    write_folder(tokenizer, args.out)
    if args.ids is None:
        return
    args.ids.mkdir(parents=True, exist_ok=True)
    for name, chapters in splits.items():
        ids = encode_split(tokenizer, chapters)
        ids.tofile(args.ids / f"{name}.bin")
        print(f"{name}: {len(ids)} tokens")


if __name__ == "__main__":
    main()
