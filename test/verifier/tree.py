"""Bytes and trees of docs/audit-format.md."""

import hashlib
import struct


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def int8be(number):
    return struct.pack(">q", number)


def lp(text):
    data = text.encode("utf-8")
    return struct.pack(">i", len(data)) + data


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
