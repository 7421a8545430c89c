"""Names and keys of a log, as its own events tell: `log.started`, `log.key-rotated`, `log.resumed`."""

import json
import re

import ed25519
from reading import HASH, LARGEST, Unreadable, decode_base64, is_count, is_name, parse_note
from tree import int8be, lp, sha256


class Wrong(Exception):
    """An event about the log that is not right."""


def key_id(name, key):
    return sha256(name.encode() + b"\n\x01" + key)[:4]


def parse_vkey(text):
    """Name and public key."""
    name, _, rest = text.partition("+")
    shown, _, encoded = rest.partition("+")
    data = decode_base64(encoded)
    sound = (is_name(name) and data is not None and len(data) == 33 and data[0] == 1
             and key_id(name, data[1:]).hex() == shown and ed25519.is_sound_key(data[1:]))
    if not sound:
        raise Unreadable("not a verifier key")
    return name, data[1:]


def parse_trusted(text):
    """Name, public key, and the largest size that it vouches for."""
    limited = re.fullmatch(r"(.*)@(0|[1-9][0-9]{0,15})", text, re.ASCII | re.DOTALL)
    vkey, limit = (limited.group(1), int(limited.group(2))) if limited else (text, LARGEST)
    if limit > LARGEST:
        raise Unreadable("not a verifier key")
    return (*parse_vkey(vkey), limit)


class Reigns:
    """What was in force from which leaf on: (first leaf, origin, checkpoint key, event key)."""

    def __init__(self, tenant, pure):
        self.tenant = tenant
        self.pure = pure
        self.all = []

    @property
    def origin(self):
        return self.all[-1][1] if self.all else None

    @property
    def event_key(self):
        return self.all[-1][3]

    def checkpoint_keys(self):
        return [(origin, key) for _, origin, key, _ in self.all]

    def origin_at(self, size):
        """The origin of the last leaf."""
        return [origin for first, origin, _, _ in self.all if first < size][-1]

    def signers_of(self, size):
        """The key of the last leaf, and the one that takes over right after it."""
        name = self.origin_at(size)
        return [(origin, key) for at, (first, origin, key, _) in enumerate(self.all)
                if origin == name and first <= size and (at + 1 == len(self.all) or self.all[at + 1][0] >= size)]

    def are_trusted(self, trusted, size):
        """Whether somebody vouches for one of the checkpoint keys, up to the last size that it signed."""
        for at, (_, origin, key, _) in enumerate(self.all):
            last = self.all[at + 1][0] if at + 1 < len(self.all) else size
            if any((origin, key) == (name, known) and last <= limit for name, known, limit in trusted):
                return True
        return False

    def start(self, body):
        snapshot = self.snapshot_of(body, ("origin", "checkpointKey", "eventKey"))
        self.all.append((0, snapshot["origin"], *keys_of(snapshot["origin"], snapshot["checkpointKey"], snapshot["eventKey"])))

    def rotate(self, body, index, root):
        """The event at this index, behind leaves of this root."""
        snapshot = self.snapshot_of(body, ("root", "oldCheckpointKey", "oldEventKey", "newCheckpointKey", "newEventKey",
                                           "oldKeySignature", "newKeySignature"))
        _, origin, *current = self.all[-1]
        old = keys_of(origin, snapshot["oldCheckpointKey"], snapshot["oldEventKey"])
        new = keys_of(origin, snapshot["newCheckpointKey"], snapshot["newEventKey"])
        message = b"".join([b"waybill-audit/rotation/v1\n", lp(origin), int8be(index), root, *old, *new])
        if list(old) != current or not is_here(snapshot, index, root):
            raise Wrong
        for key, name in ((old[0], "oldKeySignature"), (new[0], "newKeySignature")):
            signature = decode_base64(snapshot[name])
            if signature is None or not ed25519.verify(key, message, signature, self.pure):
                raise Wrong
        self.all.append((index + 1, origin, *new))

    def resume(self, body, index, root):
        """Likewise. Returns the origins under which something may have been left behind."""
        snapshot = self.snapshot_of(body, ("origin", "oldOrigin", "abandoned", "root", "checkpointKey", "eventKey"))
        _, origin, *current = self.all[-1]
        keys = keys_of(snapshot["origin"], snapshot["checkpointKey"], snapshot["eventKey"])
        try:
            abandoned = parse_note(snapshot["abandoned"])
        except Unreadable as error:
            raise Wrong from error
        used = {name for _, name, _, _ in self.all}
        if (list(keys) != current or snapshot["oldOrigin"] != origin or snapshot["origin"] in used
                or not is_here(snapshot, index, root)):
            raise Wrong
        self.all.append((index, snapshot["origin"], *keys))
        return origin, abandoned["origin"]

    def snapshot_of(self, body, texts):
        """The member `snapshot` of a body, whose id is the tenant and whose texts are texts."""
        try:
            snapshot = json.loads(body)["snapshot"]
            sound = (is_count(snapshot["id"]) and snapshot["id"] == self.tenant
                     and all(isinstance(snapshot[name], str) for name in texts))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Wrong from error
        if not sound:
            raise Wrong
        return snapshot


def keys_of(origin, checkpoint_key, event_key):
    try:
        (name, checkpoints), (other, events) = parse_vkey(checkpoint_key), parse_vkey(event_key)
    except Unreadable as error:
        raise Wrong from error
    if name != origin or other != origin:
        raise Wrong
    return checkpoints, events


def is_here(snapshot, index, root):
    """Whether size and root are those of the log before this leaf."""
    size, shown = snapshot.get("size"), snapshot["root"]
    return is_count(size) and size == index and HASH.fullmatch(shown) and shown == root.hex()
