#!/usr/bin/env python3
"""The King James Bible as plain text, from Debian's `bible-kjv` and `bible-kjv-text` packages.

Every chapter becomes one document: a heading line ("Genesis 1"), then one line per verse.  The documents are split by
chapter into train, validation and test with a fixed seed.  `python kjv_text.py --out DIR` writes `train.jsonl`,
`validation.jsonl` and `test.jsonl`, one `{"heading": ..., "verses": [...]}` a line.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

BOOKS = {
    "Ge": "Genesis",
    "Exo": "Exodus",
    "Lev": "Leviticus",
    "Num": "Numbers",
    "Deu": "Deuteronomy",
    "Josh": "Joshua",
    "Jdgs": "Judges",
    "Ruth": "Ruth",
    "1Sm": "1 Samuel",
    "2Sm": "2 Samuel",
    "1Ki": "1 Kings",
    "2Ki": "2 Kings",
    "1Chr": "1 Chronicles",
    "2Chr": "2 Chronicles",
    "Ezra": "Ezra",
    "Neh": "Nehemiah",
    "Est": "Esther",
    "Job": "Job",
    "Psa": "Psalm",
    "Prv": "Proverbs",
    "Eccl": "Ecclesiastes",
    "SSol": "Song of Solomon",
    "Isa": "Isaiah",
    "Jer": "Jeremiah",
    "Lam": "Lamentations",
    "Eze": "Ezekiel",
    "Dan": "Daniel",
    "Hos": "Hosea",
    "Joel": "Joel",
    "Amos": "Amos",
    "Obad": "Obadiah",
    "Jonah": "Jonah",
    "Mic": "Micah",
    "Nahum": "Nahum",
    "Hab": "Habakkuk",
    "Zep": "Zephaniah",
    "Hag": "Haggai",
    "Zec": "Zechariah",
    "Mal": "Malachi",
    "Mat": "Matthew",
    "Mark": "Mark",
    "Luke": "Luke",
    "John": "John",
    "Acts": "Acts",
    "Rom": "Romans",
    "1Cor": "1 Corinthians",
    "2Cor": "2 Corinthians",
    "Gal": "Galatians",
    "Eph": "Ephesians",
    "Phi": "Philippians",
    "Col": "Colossians",
    "1Th": "1 Thessalonians",
    "2Th": "2 Thessalonians",
    "1Tim": "1 Timothy",
    "2Tim": "2 Timothy",
    "Titus": "Titus",
    "Phmn": "Philemon",
    "Heb": "Hebrews",
    "Jas": "James",
    "1Pet": "1 Peter",
    "2Pet": "2 Peter",
    "1Jn": "1 John",
    "2Jn": "2 John",
    "3Jn": "3 John",
    "Jude": "Jude",
    "Rev": "Revelation",
}
SPLIT_SEED = 1611
HELD_OUT_SHARE = 0.03
LINE = re.compile(r"^(?P<book>\d?[A-Za-z]+)(?P<chapter>\d+):(?P<verse>\d+) (?P<text>.*)$")


def read_chapters():
    """Run `bible` over the whole text and return `[{"heading", "verses"}, ...]` in the book's order."""
    program = shutil.which("bible")
    if program is None:
        sys.exit("no `bible` program: install the Debian packages bible-kjv and bible-kjv-text")
    dump = subprocess.run([program, "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True)
    chapters = []
    for number, line in enumerate(dump.stdout.splitlines(), 1):
        found = LINE.match(line)
        if found is None or found["book"] not in BOOKS:
            sys.exit(f"line {number} of the dump is not a verse: {line!r}")
        heading = f"{BOOKS[found['book']]} {found['chapter']}"
        if not chapters or chapters[-1]["heading"] != heading:
            chapters.append({"heading": heading, "verses": []})
        chapters[-1]["verses"].append(" ".join(found["text"].split()))
    return chapters


def split_chapters(chapters, seed=SPLIT_SEED, share=HELD_OUT_SHARE):
    """Split by chapter; validation steers training (early stopping), test is looked at once."""
    order = list(range(len(chapters)))
    random.Random(seed).shuffle(order)
    held = round(len(chapters) * share)
    validation, test = set(order[:held]), set(order[held : 2 * held])
    parts = {"train": [], "validation": [], "test": []}
    for index, chapter in enumerate(chapters):
        part = "validation" if index in validation else "test" if index in test else "train"
        parts[part].append(chapter)
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the three .jsonl files")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, chapters in split_chapters(read_chapters()).items():
        with open(args.out / f"{name}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(chapter) + "\n" for chapter in chapters)
        verses = sum(len(chapter["verses"]) for chapter in chapters)
        print(f"{name}: {len(chapters)} chapters, {verses} verses")


if __name__ == "__main__":
    main()
