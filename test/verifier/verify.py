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
        name, first = parse_vkey(header["firstKey"])
        if name != self.origin:
            raise Unreadable("the first key has another name than the log")
        self.keys = [(0, first)]
        self.trusted = trusted
        self.crypto = crypto
        self.tree = Tree()
        self.ends = {}
        self.breaks = []
        self.expected = [(parse_checkpoint(note), "INCONSISTENT") for note in kept]
        if header["checkpoint"] is not None:
            self.expected.append((parse_checkpoint(header["checkpoint"]), "ROOT_MISMATCH"))
        for checkpoint, _ in self.expected:
            if checkpoint["origin"] != self.origin:
                raise Fault("UNKNOWN_KEY")
        self.compare()

    def compare(self):
        for checkpoint, code in self.expected:
            if checkpoint["size"] != self.tree.size:
                continue
            if checkpoint["root"] != self.tree.root():
                raise Fault(code)
            self.check_signatures(checkpoint)

    def check_signatures(self, checkpoint):
        size = checkpoint["size"]
        # The key of the last leaf, or the one that takes over right after it.
        signers = [key for at, (start, key) in enumerate(self.keys)
                   if start <= size and (at + 1 == len(self.keys) or self.keys[at + 1][0] >= size)]
        known = 0
        for name, shown, signature in checkpoint["signatures"]:
            for key in signers:
                if name == self.origin and shown == key_id(name, key):
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
        if not self.crypto.verify(self.keys[-1][1], b"waybill-audit/sig/v1\n" + stored, signature):
            raise Fault("BAD_SIGNATURE", index)
        if stream == f"log/{self.tenant}":
            self.read_log_event(line, index)
        self.tree.add(sha256(b"\x00", preimage, signature))
        self.compare()

    def read_log_event(self, line, index):
        if line["type"] == "log.key-rotated":
            self.rotate(json.loads(line["body"])["snapshot"], index)
        elif line["type"] == "log.resumed":
            self.breaks.append(index)

    def rotate(self, snapshot, index):
        try:
            old_name, old = parse_vkey(snapshot["oldKey"])
            new_name, new = parse_vkey(snapshot["newKey"])
        except Unreadable as error:
            raise Fault("BAD_SIGNATURE", index) from error
        root = self.tree.root()
        message = b"".join([b"waybill-audit/rotation/v1\n", lp(self.origin), int8be(index), root, old, new])
        sound = (old == self.keys[-1][1] and old_name == new_name == self.origin and snapshot["size"] == index
                 and snapshot["root"] == root.hex()
                 and self.crypto.verify(new, message, base64.b64decode(snapshot["newKeySignature"])))
        if not sound:
            raise Fault("BAD_SIGNATURE", index)
        self.keys.append((index + 1, new))

    def finish(self):
        if any(checkpoint["size"] > self.tree.size for checkpoint, _ in self.expected):
            raise Fault("SIZE_BELOW_CHECKPOINT")
        known = {(self.origin, key) for _, key in self.keys}
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
            "breaks": verifier.breaks if verifier else []}


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
