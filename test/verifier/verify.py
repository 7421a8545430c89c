#!/usr/bin/env python3
"""A verifier of Waybill's audit exports, written from docs/audit-format.md alone.

    verify.py EXPORT --vkey KEY[@SIZE] [--vkey …] [--checkpoint FILE …]

Prints one JSON object and leaves with 0 (intact), 1 (tampered) or 2 (unverifiable or unreadable).
"""

import argparse
import json
import sys
import uuid

import ed25519
from reading import Unreadable, lines_of, parse_event, parse_header, parse_note, read_note
from reigns import Reigns, Wrong, key_id, parse_trusted
from tree import Tree, int8be, lp, sha256

EXIT_CODES = {"intact": 0, "tampered": 1, "unverifiable": 2, "unreadable": 2}
UNVERIFIABLE = {"UNKNOWN_KEY", "UNPROVEN_TAIL", "BAD_CHECKPOINT"}
LATE_AFTER = 86400 * 1000000


class Fault(Exception):
    def __init__(self, code, index=None):
        super().__init__(code)
        self.code = code
        self.index = index


class Verifier:
    def __init__(self, header, trusted, kept, pure=False):
        self.tenant = header["tenantId"]
        self.origin = header["origin"]
        self.stated = header["size"]
        self.trusted = trusted
        self.pure = pure
        self.reigns = Reigns(self.tenant, pure)
        self.tree = Tree()
        self.ends = {}
        self.sealed = 0
        self.late = 0
        self.breaks = []
        self.own = None
        if header["checkpoint"] is not None:
            try:
                self.own = parse_note(header["checkpoint"])
            except Unreadable as error:
                raise Unreadable(str(error), 1) from error
        for note in kept:
            keys = [(name, key) for name, key, limit in trusted if note["size"] <= limit]
            note["authentic"] = self.is_signed(note, keys, "BAD_CHECKPOINT")
        self.kept = sorted(kept, key=lambda note: note["size"])

    def verify(self, key, message, signature):
        return ed25519.verify(key, message, signature, self.pure)

    def is_signed(self, note, keys, code):
        """Whether one of the keys signed the note; a wrong signature by one of them is a fault."""
        found = False
        for name, shown, signature in note["signatures"]:
            for known, key in keys:
                if name == known == note["origin"] and shown == key_id(name, key):
                    if not self.verify(key, note["text"].encode(), signature):
                        raise Fault(code)
                    found = True
        return found

    def authenticate(self, note, keys):
        if not note["authentic"] and not self.is_signed(note, keys, "BAD_CHECKPOINT"):
            raise Fault("UNKNOWN_KEY")

    def add(self, event):
        index = self.tree.size
        preimage = self.check_chain(event, index)
        self.check_log(event, index)
        self.tree.add(sha256(b"\x00", preimage, int8be(event["sealedUs"]), event["signature"]))
        self.compare()

    def check_chain(self, event, index):
        """Checks the event's place in log and stream, and returns its preimage."""
        if event["index"] != index:
            raise Fault("GAP", index)
        stream, version, stored = event["stream"], event["version"], event["eventHash"]
        preimage = b"".join([
            b"waybill-audit/v1\n", int8be(self.tenant), uuid.UUID(event["eventId"]).bytes, lp(stream), int8be(version),
            int8be(event["occurredUs"]), lp(event["type"]), uuid.UUID(event["actor"]).bytes, lp(event["body"]),
            event["prevHash"]])
        if sha256(preimage) != stored:
            raise Fault("HASH_MISMATCH", index)
        genesis = sha256(b"waybill-audit/genesis/v1\n", int8be(self.tenant), lp(stream))
        last, end = self.ends.get(stream, (0, genesis))
        if version != last + 1:
            raise Fault("GAP" if version > last else "FORK", index)
        if event["prevHash"] != end:
            raise Fault("PREV_MISMATCH", index)
        self.ends[stream] = (version, stored)
        return preimage

    def check_log(self, event, index):
        """Checks signature and time, and takes over what the log says of itself."""
        own = event["type"] if event["stream"] == f"log/{self.tenant}" else None
        if index == 0 and own != "log.started":
            raise Fault("GAP", 0)
        if index > 0 and own == "log.started":
            raise Fault("FORK", index)
        sealed = event["sealedUs"]
        try:
            if index == 0:
                self.reigns.start(event["body"])
            message = b"waybill-audit/sig/v1\n" + event["eventHash"] + int8be(sealed)
            if not self.verify(self.reigns.event_key, message, event["signature"]):
                raise Wrong
            if sealed < self.sealed:
                raise Fault("TIME_REVERSED", index)
            if own == "log.key-rotated":
                self.reigns.rotate(event["body"], index, self.tree.root())
            if own == "log.resumed":
                self.check_break(index, self.reigns.resume(event["body"], index, self.tree.root()))
        except Wrong as error:
            raise Fault("BAD_SIGNATURE", index) from error
        self.sealed = sealed
        self.late += sealed - event["occurredUs"] > LATE_AFTER

    def check_break(self, index, origins):
        self.breaks.append(index)
        for note in self.kept:
            if note["size"] > index and note["origin"] in origins:
                self.authenticate(note, self.reigns.checkpoint_keys())
                raise Fault("INCONSISTENT")

    def compare(self):
        size = self.tree.size
        for note in self.kept:
            if note["size"] == size:
                self.authenticate(note, self.reigns.signers_of(size))
                if note["origin"] != self.reigns.origin_at(size):
                    raise Fault("UNKNOWN_KEY")
                if note["root"] != self.tree.root():
                    raise Fault("INCONSISTENT")
        if self.own and self.own["size"] == size:
            if not self.is_signed(self.own, self.reigns.signers_of(size), "BAD_SIGNATURE"):
                raise Fault("UNKNOWN_KEY")
            if self.own["root"] != self.tree.root():
                raise Fault("ROOT_MISMATCH")

    def finish(self):
        size = self.tree.size
        for note in self.kept:
            if note["size"] > size:
                self.authenticate(note, self.reigns.checkpoint_keys())
                raise Fault("SIZE_BELOW_CHECKPOINT" if note["origin"] == (self.reigns.origin or self.origin) else "UNKNOWN_KEY")
        covered = self.own["size"] if self.own else 0
        if size != covered:
            raise Fault("SIZE_BELOW_CHECKPOINT") if size < covered else Fault("UNPROVEN_TAIL", covered)
        if self.stated != size:
            raise Fault("SIZE_MISMATCH")
        if self.reigns.origin != self.origin or not self.reigns.are_trusted(self.trusted, size):
            raise Fault("UNKNOWN_KEY")


def verify(file, vkeys, notes, pure=False):
    """What can be said of an export, given as a binary file; the notes are parsed ones."""
    lines = lines_of(file)
    verifier, fault = None, None
    try:
        trusted = [parse_trusted(text) for text in vkeys]
        number, line = next(lines, (1, None))
        if line is None:
            raise Unreadable("the file is empty", 1)
        verifier = Verifier(parse_header(line), trusted, notes, pure)
        for number, line in lines:
            verifier.add(parse_event(line, number))
        verifier.finish()
    except Fault as found:
        fault = found
    except Unreadable as error:
        return {"verdict": "unreadable", "code": error.code, "line": error.line, "detail": str(error)}
    verdict = "intact" if fault is None else "unverifiable" if fault.code in UNVERIFIABLE else "tampered"
    tree = verifier.tree if verifier else Tree()
    return {"verdict": verdict, "code": fault and fault.code, "index": fault and fault.index, "size": tree.size,
            "root": tree.root().hex(), "breaks": verifier.breaks if verifier else [], "late": verifier.late if verifier else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--vkey", action="append", required=True)
    parser.add_argument("--checkpoint", action="append", default=[])
    parser.add_argument("--pure", action="store_true", help="do without Python's cryptography")
    options = parser.parse_args()
    try:
        notes = [read_note(path) for path in options.checkpoint]
        with open(options.export, "rb") as file:
            result = verify(file, options.vkey, notes, options.pure)
    except Unreadable as error:
        result = {"verdict": "unreadable", "code": error.code, "detail": str(error)}
    except OSError as error:
        result = {"verdict": "unreadable", "code": None, "detail": str(error)}
    print(json.dumps(result))
    return EXIT_CODES[result["verdict"]]


if __name__ == "__main__":
    sys.exit(main())
