/* As much of the curve of Ed25519 as it takes to make signatures that RFC 8032 lets verifiers disagree on. */
import { createHash } from 'node:crypto';

const P = 2n ** 255n - 19n;
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const mod = (value) => ((value % P) + P) % P;
const power = (base, exponent) => {
  let [result, square] = [1n, mod(base)];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
};
const inverse = (value) => power(value, P - 2n);
const D = mod(-121665n * inverse(121666n));
const I = power(2n, (P - 1n) / 4n);

const add = ([x1, y1], [x2, y2]) => {
  const product = D * x1 * x2 * y1 * y2;
  return [mod((x1 * y2 + x2 * y1) * inverse(1n + product)), mod((y1 * y2 + x1 * x2) * inverse(1n - product))];
};
const times = (scalar, point) => {
  let [result, double] = [[0n, 1n], point];
  for (let rest = scalar; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = add(result, double);
    double = add(double, double);
  }
  return result;
};
const fromBytes = (bytes) => BigInt(`0x${Buffer.from(bytes.toReversed()).toString('hex')}`);
export const toBytes = (value) => Buffer.from(Buffer.from(value.toString(16).padStart(64, '0'), 'hex').toReversed());
const encode = ([x, y]) => toBytes(y | ((x & 1n) << 255n));
const decode = (bytes) => {
  const number = fromBytes(bytes);
  const [sign, y] = [number >> 255n, number & (2n ** 255n - 1n)];
  const [above, below] = [mod(y * y - 1n), mod(D * y * y + 1n)];
  let x = mod(above * below ** 3n * power(mod(above * below ** 7n), (P - 5n) / 8n));
  if (mod(below * x * x) !== above) x = mod(x * I);
  return [(x & 1n) === sign ? x : mod(-x), y];
};
const sha512 = (...parts) => createHash('sha512').update(Buffer.concat(parts)).digest();

const BASE = decode(toBytes(mod(4n * inverse(5n))));
/** A point of order 8. */
export const TORSION = Buffer.from('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'hex');

/** S with the group's order added: the same signature to whoever doesn't look. */
export const withLargeS = (signature) =>
  Buffer.concat([signature.subarray(0, 32), toBytes(fromBytes(signature.subarray(32)) + ORDER)]);

/** A signature whose R has a part of order 8: right only for who multiplies both sides by the cofactor. */
export const withTorsion = ({ seed, publicKey }, message) => {
  const digest = createHash('sha512').update(seed).digest();
  digest[0] &= 248;
  digest[31] = (digest[31] & 127) | 64;
  const secret = fromBytes(digest.subarray(0, 32));
  const r = fromBytes(sha512(digest.subarray(32), message)) % ORDER;
  const R = encode(add(times(r, BASE), decode(TORSION)));
  const k = fromBytes(sha512(R, publicKey, message)) % ORDER;
  return Buffer.concat([R, toBytes((r + k * secret) % ORDER)]);
};

/** The encoding of a small y with p added to it, which stands for no point in RFC 8032. */
export const beyondP = (y) => toBytes(P + y);
