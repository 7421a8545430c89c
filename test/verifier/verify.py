#!/usr/bin/env python3
"""A verifier of Waybill's audit exports, written from docs/audit-format.md alone.

It shares nothing with the service: Python's standard library, and the openssl binary for Ed25519.

    verify.py EXPORT --vkey KEY [--vkey KEY …] [--checkpoint FILE …]

Prints one JSON object and leaves with 0 (intact), 1 (tampered) or 2 (unverifiable or unreadable).
"""

import argparse
import base64
import binascii
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import uuid

EXIT_CODES = {"intact": 0, "tampered": 1, "unverifiable": 2, "unreadable": 2}


class Fault(Exception):
    def __init__(self, code, index=None):
        super().__init__(code)
        self.code = code
        self.index = index


class Unreadable(Exception):
    pass


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def int8be(number):
    return struct.pack(">q", number)


def lp(text):
    data = text.encode("utf-8")
    return struct.pack(">i", len(data)) + data


class Ed25519:
    """Signatures by the openssl binary; public keys as PEM files in a temporary folder."""

    SPKI = bytes.fromhex("302a300506032b6570032100")

    def __init__(self, folder):
        self.folder = folder

    def verify(self, key, message, signature):
        pem = os.path.join(self.folder, key.hex() + ".pem")
        if not os.path.exists(pem):
            body = base64.b64encode(self.SPKI + key).decode()
            with open(pem, "w", encoding="ascii") as file:
                file.write(f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
        paths = {}
        for name, data in (("message", message), ("signature", signature)):
            paths[name] = os.path.join(self.folder, name)
            with open(paths[name], "wb") as file:
                file.write(data)
        done = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pem, "-rawin",
             "-in", paths["message"], "-sigfile", paths["signature"]],
            capture_output=True, check=False)
        return done.returncode == 0


class Tree:
    """The Merkle tree as a stack of complete subtrees: (number of leaves, root)."""

    def __init__(self):
        self.size = 0
        self.stack = []

    def add(self, leaf):
        self.size += 1
        self.stack.append((1, leaf))
        while len(self.stack) > 1 and self.stack[-1][0] == self.stack[-2][0]:
            count, right = self.stack.pop()
            _, left = self.stack.pop()
            self.stack.append((2 * count, sha256(b"\x01", left, right)))

    def root(self):
        if not self.stack:
            return sha256(b"")
        root = self.stack[-1][1]
        for _, left in reversed(self.stack[:-1]):
            root = sha256(b"\x01", left, root)
        return root


def key_id(name, key):
    return sha256(name.encode() + b"\n\x01" + key)[:4]


def parse_vkey(text):
    match = re.fullmatch(r"([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)", text)
    if not match:
        raise Unreadable("not a verifier key")
    name, shown, encoded = match.groups()
    data = base64.b64decode(encoded, validate=True)
    if len(data) != 33 or data[0] != 1 or key_id(name, data[1:]).hex() != shown:
        raise Unreadable("not an Ed25519 verifier key")
    return name, data[1:]


def parse_checkpoint(note):
    """Returns origin, size, root, the signed text and the signatures (name, key id, signature)."""
    text, separator, rest = note.rpartition("\n\n")
    if not separator or not rest.endswith("\n"):
        raise Unreadable("not a signed note")
    text += "\n"
    signatures = []
    for line in rest[:-1].split("\n"):
        match = re.fullmatch("\u2014 (\\S+) (\\S+)", line)
        if not match:
            raise Unreadable("malformed signature line")
        data = base64.b64decode(match.group(2), validate=True)
        signatures.append((match.group(1), data[:4], data[4:]))
    lines = text.split("\n")
    if len(lines) < 4 or not re.fullmatch(r"0|[1-9][0-9]*", lines[1]):
        raise Unreadable("not a checkpoint")
    root = base64.b64decode(lines[2], validate=True)
    if len(root) != 32:
        raise Unreadable("not a checkpoint")
    return {"origin": lines[0], "size": int(lines[1]), "root": root, "text": text, "signatures": signatures}


class Verifier:
    def __init__(self, header, trusted, kept, crypto):
        self.tenant = header["tenantId"]
        self.origin = header["origin"]
        # (first leaf, origin, checkpoint key, event key), as the log itself tells
        self.reigns = []
        self.sealed = 0
        self.late = []
        self.trusted = trusted
        self.crypto = crypto
        self.tree = Tree()
        self.ends = {}
        self.breaks = []
        self.expected = [(parse_checkpoint(note), "INCONSISTENT") for note in kept]
        if header["checkpoint"] is not None:
            self.expected.append((parse_checkpoint(header["checkpoint"]), "ROOT_MISMATCH"))

    def origin_of(self, size):
        before = [reign for reign in self.reigns if reign[0] < size] or self.reigns[:1]
        return before[-1][1] if before else self.origin

    def compare(self):
        for checkpoint, code in self.expected:
            if checkpoint["size"] != self.tree.size:
                continue
            if checkpoint["origin"] != self.origin_of(checkpoint["size"]):
                raise Fault("UNKNOWN_KEY")
            if checkpoint["root"] != self.tree.root():
                raise Fault(code)
            self.check_signatures(checkpoint)

    def check_signatures(self, checkpoint):
        size = checkpoint["size"]
        # The key of the last leaf, or the one that takes over right after it.
        origin = self.origin_of(size)
        signers = [reign[2] for at, reign in enumerate(self.reigns)
                   if reign[1] == origin and reign[0] <= size
                   and (at + 1 == len(self.reigns) or self.reigns[at + 1][0] >= size)]
        known = 0
        for name, shown, signature in checkpoint["signatures"]:
            for key in signers:
                if name == origin and shown == key_id(name, key):
                    if not self.crypto.verify(key, checkpoint["text"].encode(), signature):
                        raise Fault("BAD_SIGNATURE")
                    known += 1
        if known == 0:
            raise Fault("UNKNOWN_KEY")

    def add(self, line):
        index = self.tree.size
        if line["index"] != index:
            raise Fault("GAP", index)
        stream, version = line["stream"], line["version"]
        previous = bytes.fromhex(line["prevHash"])
        stored = bytes.fromhex(line["eventHash"])
        signature = base64.b64decode(line["signature"], validate=True)
        preimage = b"".join([
            f"waybill-audit/v{line['format']}\n".encode(), int8be(self.tenant), uuid.UUID(line["eventId"]).bytes,
            lp(stream), int8be(version), int8be(line["occurredUs"]), lp(line["type"]),
            uuid.UUID(line["actor"]).bytes, lp(line["body"]), previous])
        if sha256(preimage) != stored:
            raise Fault("HASH_MISMATCH", index)
        genesis = sha256(b"waybill-audit/genesis/v1\n", int8be(self.tenant), lp(stream))
        last, end = self.ends.get(stream, (0, genesis))
        if version > last + 1:
            raise Fault("GAP", index)
        if version <= last:
            raise Fault("FORK", index)
        if previous != end:
            raise Fault("PREV_MISMATCH", index)
        self.ends[stream] = (version, stored)
        if index == 0:
            self.start(line)
        sealed = int8be(line["sealedUs"])
        if not self.crypto.verify(self.reigns[-1][3], b"waybill-audit/sig/v1\n" + stored + sealed, signature):
            raise Fault("BAD_SIGNATURE", index)
        if line["sealedUs"] < self.sealed:
            raise Fault("TIME_REVERSED", index)
        self.sealed = line["sealedUs"]
        if line["sealedUs"] - line["occurredUs"] > 86400 * 1000000:
            self.late.append(index)
        if stream == f"log/{self.tenant}":
            self.read_log_event(line, index)
        self.tree.add(sha256(b"\x00", preimage, sealed, signature))
        self.compare()

    def start(self, line):
        if line["stream"] != f"log/{self.tenant}" or line["type"] != "log.started":
            raise Fault("GAP", 0)
        snapshot = json.loads(line["body"])["snapshot"]
        keys = self.keys_of(snapshot["origin"], snapshot["checkpointKey"], snapshot["eventKey"], 0)
        self.reigns.append((0, snapshot["origin"], *keys))

    def read_log_event(self, line, index):
        if line["type"] == "log.started" and index > 0:
            raise Fault("FORK", index)
        if line["type"] == "log.key-rotated":
            self.rotate(json.loads(line["body"])["snapshot"], index)
        elif line["type"] == "log.resumed":
            self.resume(json.loads(line["body"])["snapshot"], index)

    def keys_of(self, origin, checkpoint_key, event_key, index):
        try:
            name, checkpoints = parse_vkey(checkpoint_key)
            other, events = parse_vkey(event_key)
        except Unreadable as error:
            raise Fault("BAD_SIGNATURE", index) from error
        if name != origin or other != origin:
            raise Fault("BAD_SIGNATURE", index)
        return checkpoints, events

    def rotate(self, snapshot, index):
        _, origin, *current = self.reigns[-1]
        old = self.keys_of(origin, snapshot["oldCheckpointKey"], snapshot["oldEventKey"], index)
        new = self.keys_of(origin, snapshot["newCheckpointKey"], snapshot["newEventKey"], index)
        root = self.tree.root()
        message = b"".join([b"waybill-audit/rotation/v1\n", lp(origin), int8be(index), root, *old, *new])
        sound = (list(old) == current and snapshot["size"] == index and snapshot["root"] == root.hex()
                 and self.crypto.verify(old[0], message, base64.b64decode(snapshot["oldKeySignature"]))
                 and self.crypto.verify(new[0], message, base64.b64decode(snapshot["newKeySignature"])))
        if not sound:
            raise Fault("BAD_SIGNATURE", index)
        self.reigns.append((index + 1, origin, *new))

    def resume(self, snapshot, index):
        _, origin, *current = self.reigns[-1]
        keys = self.keys_of(snapshot["origin"], snapshot["checkpointKey"], snapshot["eventKey"], index)
        sound = (list(keys) == current and snapshot["oldOrigin"] == origin and snapshot["size"] == index
                 and snapshot["root"] == self.tree.root().hex()
                 and all(reign[1] != snapshot["origin"] for reign in self.reigns))
        if not sound:
            raise Fault("BAD_SIGNATURE", index)
        self.reigns.append((index, snapshot["origin"], *keys))
        self.breaks.append(index)
        left = {origin, parse_checkpoint(snapshot["abandoned"])["origin"]}
        if any(kept["origin"] in left and kept["size"] > index for kept, _ in self.expected):
            raise Fault("INCONSISTENT")

    def finish(self):
        for checkpoint, _ in self.expected:
            if checkpoint["size"] > self.tree.size:
                same = checkpoint["origin"] == self.origin_of(checkpoint["size"])
                raise Fault("SIZE_BELOW_CHECKPOINT" if same else "UNKNOWN_KEY")
        if self.reigns and self.reigns[-1][1] != self.origin:
            raise Fault("UNKNOWN_KEY")
        known = {(origin, key) for _, origin, key, _ in self.reigns}
        if self.tree.size > 0 and not known & set(self.trusted):
            raise Fault("UNKNOWN_KEY")


def verify(path, vkeys, checkpoints, folder):
    trusted = [parse_vkey(text) for text in vkeys]
    kept = [open(name, encoding="utf-8", newline="").read() for name in checkpoints]
    with open(path, encoding="utf-8", newline="\n") as export:
        header = json.loads(export.readline())
        if header.get("export") != "waybill-audit-export/v1":
            raise Unreadable("not an export")
        verifier = None
        fault = None
        try:
            verifier = Verifier(header, trusted, kept, Ed25519(folder))
            for text in export:
                verifier.add(json.loads(text))
            verifier.finish()
        except Fault as found:
            fault = found
    verdict = "intact" if fault is None else "unverifiable" if fault.code == "UNKNOWN_KEY" else "tampered"
    size = verifier.tree.size if verifier else 0
    root = verifier.tree.root().hex() if verifier else None
    return {"verdict": verdict, "code": fault and fault.code, "index": fault and fault.index, "size": size, "root": root,
            "breaks": verifier.breaks if verifier else [], "late": len(verifier.late) if verifier else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--vkey", action="append", required=True)
    parser.add_argument("--checkpoint", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = verify(options.export, options.vkey, options.checkpoint, folder)
        except (Unreadable, ValueError, KeyError, TypeError, AttributeError, binascii.Error, OSError) as error:
            result = {"verdict": "unreadable", "detail": str(error)}
    print(json.dumps(result))
    return EXIT_CODES[result["verdict"]]


if __name__ == "__main__":
    sys.exit(main())
