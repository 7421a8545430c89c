#!/usr/bin/env python3
"""Holds verify.py against docs/audit-vectors.json, or against other cases of that form.

    check_vectors.py FILE [--pure]

Prints a JSON array: of each case what the verifier said.
"""

import base64
import io
import json
import sys

from reading import Unreadable, parse_note
from verify import verify


def line_of(line, base):
    if isinstance(line, int):
        return base[line].encode()
    return line.encode() if isinstance(line, str) else base64.b64decode(line["base64"])


def said_of(case, base, pure):
    lines = [line_of(line, base) for line in case["lines"]]
    export = b"\n".join(lines) + (case.get("end", "\n").encode() if lines else b"")
    try:
        notes = [parse_note(note) for note in case.get("checkpoints", [])]
    except Unreadable as error:
        return {"verdict": "unreadable", "code": error.code}
    return verify(io.BytesIO(export), case["vkeys"], notes, pure)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        vectors = json.load(file)
    print(json.dumps([said_of(case, vectors["base"], "--pure" in sys.argv) for case in vectors["cases"]]))


if __name__ == "__main__":
    main()
