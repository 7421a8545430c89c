"""Reads exports, signed notes and verifier keys as docs/audit-format.md has them: in the one way in which they are written."""

import base64
import binascii
import json
import re

FORMAT = "waybill-audit-export/v1"
LINE_LIMIT = 16 * 1024 * 1024
NOTE_LIMIT = 1_000_000
SIGNATURE_LIMIT = 100
LARGEST = 2**53 - 1

HEADER = ("export", "origin", "tenantId", "size", "checkpoint")
EVENT = ("index", "stream", "version", "eventId", "type", "actor", "occurredUs", "body", "prevHash", "eventHash",
         "format", "sealedUs", "signature")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Unreadable(Exception):
    """Not in the format: MALFORMED, or UNKNOWN_FORMAT."""

    def __init__(self, detail, line=None, code="MALFORMED"):
        super().__init__(detail)
        self.code = code
        self.line = line


def lines_of(file):
    """The lines of a binary file without their ends, with their numbers from 1."""
    number = 1
    while True:
        line = file.readline(LINE_LIMIT + 1)
        if line == b"":
            return
        if len(line) > LINE_LIMIT:
            raise Unreadable("the line is too long", number)
        if not line.endswith(b"\n"):
            raise Unreadable("the last line has no end", number)
        yield number, line[:-1]
        number += 1


def parse_object(line, number):
    """A JSON object as a list of its members, and the text that it was read from."""
    try:
        text = line.decode("utf-8")
        members = json.loads(text, object_pairs_hook=list, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable("the line is not JSON in UTF-8", number) from error
    if not text.startswith("{") or not isinstance(members, list):
        raise Unreadable("the line is not a JSON object", number)
    return members, text


def refuse(_):
    raise ValueError("a number that is not an integer")


def check_members(members, text, names, number):
    """The members by name, if they are all there, once, in order, and written in the one way."""
    if [name for name, _ in members] != list(names):
        raise Unreadable("the line has other members than " + ", ".join(names), number)
    value = dict(members)
    if json.dumps(value, ensure_ascii=False, separators=(",", ":")) != text:
        raise Unreadable("the line is written in another way", number)
    return value


def is_count(value, least=0):
    return type(value) is int and least <= value <= LARGEST


def parse_header(line):
    members, text = parse_object(line, 1)
    named = [value for name, value in members if name == "export"]
    if len(named) == 1 and isinstance(named[0], str) and named[0] != FORMAT:
        raise Unreadable("the export is in another format", 1, "UNKNOWN_FORMAT")
    header = check_members(members, text, HEADER, 1)
    sound = (header["export"] == FORMAT and isinstance(header["origin"], str) and is_name(header["origin"])
             and is_count(header["tenantId"], 1) and is_count(header["size"])
             and (header["checkpoint"] is None or isinstance(header["checkpoint"], str)))
    if not sound:
        raise Unreadable("the first line is not a header", 1)
    return header


def parse_event(line, number):
    members, text = parse_object(line, number)
    event = check_members(members, text, EVENT, number)
    sound = (all(is_count(event[name]) for name in ("index", "occurredUs", "format", "sealedUs"))
             and is_count(event["version"], 1)
             and all(isinstance(event[name], str) for name in EVENT if name not in
                     ("index", "occurredUs", "format", "sealedUs", "version"))
             and all(UUID.fullmatch(event[name]) for name in ("eventId", "actor"))
             and all(HASH.fullmatch(event[name]) for name in ("prevHash", "eventHash")))
    signature = decode_base64(event["signature"]) if sound else None
    if not sound or signature is None or len(signature) != 64:
        raise Unreadable("the line is not an event", number)
    if event["format"] != 1:
        raise Unreadable("the event is in another format", number, "UNKNOWN_FORMAT")
    event["signature"] = signature
    event["prevHash"] = bytes.fromhex(event["prevHash"])
    event["eventHash"] = bytes.fromhex(event["eventHash"])
    return event


def decode_base64(text):
    """The bytes of base64 with padding; None for anything else."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        return None
    return data if base64.b64encode(data).decode() == text else None


def is_name(name):
    """Whether an origin, or a key, may be called so."""
    return name != "" and not any(char == "+" or char.isspace() or ord(char) < 32 for char in name)


def parse_note(note):
    """A checkpoint: origin, size, root, the signed text, and its signatures (name, key id, signature)."""
    malformed = Unreadable("not a checkpoint")
    if len(note.encode("utf-8", "surrogatepass")) > NOTE_LIMIT or any(ord(c) < 32 and c != "\n" for c in note):
        raise malformed
    text, separator, rest = note.rpartition("\n\n")
    if not separator or not rest.endswith("\n"):
        raise malformed
    signatures = []
    for line in rest[:-1].split("\n"):
        parts = line.split(" ")
        data = decode_base64(parts[2]) if len(parts) == 3 else None
        if data is None or parts[0] != "\u2014" or not is_name(parts[1]) or len(data) < 5:
            raise malformed
        signatures.append((parts[1], data[:4], data[4:]))
    lines = text.split("\n")
    if len(signatures) > SIGNATURE_LIMIT or len(lines) < 3 or "" in lines:
        raise malformed
    origin, size, root = lines[0], lines[1], decode_base64(lines[2])
    if not re.fullmatch(r"[1-9][0-9]{0,15}", size, re.ASCII) or int(size) > LARGEST or root is None or len(root) != 32:
        raise malformed
    return {"origin": origin, "size": int(size), "root": root, "text": text + "\n", "signatures": signatures}


def read_note(path):
    with open(path, "rb") as file:
        try:
            return parse_note(file.read().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise Unreadable("not a checkpoint") from error
