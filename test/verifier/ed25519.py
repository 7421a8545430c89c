"""Ed25519 as docs/audit-format.md has it: RFC 8032 without the cofactor, S below the group's order, no weak keys.

Python's `cryptography` does the work where it is installed, and whole numbers where it isn't; both say the same.
"""

import hashlib

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey = None

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
SIGN = 2**255
# The y of the eight points whose order divides 8: a signature under such a key proves nothing.
WEAK = {0, 1, P - 1,
        int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
        int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")}


def is_sound_key(key):
    """Whether 32 bytes may be a public key: y below p, and not a weak one."""
    y = int.from_bytes(key, "little") % SIGN
    return y < P and y not in WEAK


def verify(key, message, signature, pure=False):
    """Whether the 64 bytes are the key's signature of the message."""
    if len(signature) != 64 or not is_sound_key(key):
        return False
    if Ed25519PublicKey is None or pure:
        return verify_purely(key, message, signature)
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def verify_purely(key, message, signature):
    point = decode(key)
    s = int.from_bytes(signature[32:], "little")
    if point is None or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    x, y, z, t = point
    return encode(twice_times(s, BASE, k, (P - x, y, z, P - t))) == signature[:32]


def decode(encoded):
    """The point (X, Y, Z, T) of RFC 8032, section 5.1.3; None where there is none."""
    number = int.from_bytes(encoded, "little")
    sign, y = divmod(number, SIGN)
    if y >= P:
        return None
    above, below = (y * y - 1) % P, (D * y * y + 1) % P
    x = above * pow(below, 3, P) * pow(above * pow(below, 7, P), (P - 5) // 8, P) % P
    if below * x * x % P != above:
        x = x * ROOT_OF_MINUS_ONE % P
    if below * x * x % P != above or (x == 0 and sign == 1):
        return None
    if x % 2 != sign:
        x = P - x
    return x, y, 1, x * y % P


def encode(point):
    x, y, z, _ = point
    inverse = pow(z, P - 2, P)
    x, y = x * inverse % P, y * inverse % P
    return (y + (SIGN if x % 2 else 0)).to_bytes(32, "little")


def add(one, other):
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def double(point):
    x, y, z, _ = point
    a, b, c = x * x % P, y * y % P, 2 * z * z % P
    h = a + b
    e, g = h - (x + y) * (x + y) % P, a - b
    f = c + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def twice_times(s, one, k, other):
    """[s]one + [k]other, two bits of both at a time."""
    ones, others = [NEUTRAL, one, double(one)], [NEUTRAL, other, double(other)]
    ones.append(add(ones[2], one))
    others.append(add(others[2], other))
    sums = [[add(a, b) for b in others] for a in ones]
    result = NEUTRAL
    for shift in range(254, -1, -2):
        result = double(double(result))
        a, b = s >> shift & 3, k >> shift & 3
        if a or b:
            result = add(result, sums[a][b])
    return result


NEUTRAL = (0, 1, 1, 0)
BASE = decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
