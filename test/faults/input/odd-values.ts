import fc from 'fast-check';
import { below, type Random } from '../storm-plan.js';

const ODD_TEXTS = [
  [
    '',
    ' ',
    '\t',
    '\u00a0',
    '\u200b',
    '\0',
    'a\0b',
    '\n',
    '\u{10ffff}',
    '\ufeff',
    'e\u0301',
    '\ud83d',
    '\u2028',
    '.',
    '..',
  ],
  ['null', 'true', 'NaN', '-1', '0', '01', '1.5', '1e9', '1e400', '+1', '0x10', '2147483648', '9007199254740993', '٣'],
  ['2026-02-30T00:00:00Z', '2026-01-01T00:00:00.123456789Z', '9999-12-31T23:59:59.9999999Z', '0000-01-01T00:00:00Z'],
  ['00000000-0000-0000-0000-000000000000', '{}', '[]', '"', "'; DROP TABLE orders; --", '%', '%00', '../../etc/passwd'],
  ['a'.repeat(300), 'a'.repeat(5_000), '9'.repeat(40), '"1"', 'W/"1"', '*', 'a,b', '__proto__', 'constructor'],
].flat();
const ODD_NUMBERS = [-1, 0, 0.1, 1.5, 2_147_483_648, 4_294_967_296, 2 ** 53 - 1, -(2 ** 53 - 1), 1e-9, 9e12, 9e12 + 1];

const anyText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...ODD_TEXTS) },
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
);
const anyValue = fc.oneof(
  anyText,
  fc.constantFrom<unknown>(...ODD_NUMBERS, null, true, false, [], {}, [null], { a: { b: {} } }),
  fc.jsonValue({ maxDepth: 3 }),
);

/** A text that nobody expects. */
export function oddText(random: Random): string {
  return sample(anyText, random);
}

/** A JSON value that nobody expects. */
export function oddValue(random: Random): unknown {
  return sample(anyValue, random);
}

function sample<T>(arbitrary: fc.Arbitrary<T>, random: Random): T {
  const [value] = fc.sample(arbitrary, { numRuns: 1, seed: below(random, 2 ** 31) });
  return value as T;
}

/** A body that nobody expects, in bytes. */
export function oddBody(random: Random, body: Buffer): Buffer {
  const kinds: (() => Buffer)[] = [
    () => Buffer.alloc(0),
    () => body.subarray(0, below(random, body.length + 1)),
    () => Buffer.from('['.repeat(50_000)),
    () => Buffer.from(`{"a":`.repeat(40)),
    () => Buffer.concat([body, Buffer.from('x')]),
    () => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body]),
    () => Buffer.from(body.map((byte) => (random() < 0.02 ? below(random, 256) : byte))),
    () => Buffer.from('{"a":1,"a":1}'),
    () => Buffer.from('{"metadata":{"n":1.00000000000000000001}}'),
    () => Buffer.from(JSON.stringify(oddValue(random))),
    () => Buffer.alloc(1_100_000, ' '),
  ];
  return (kinds[below(random, kinds.length)] ?? (() => body))();
}

/** Replaces, takes out or adds a member, at any depth. */
export function withOddMember(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random() < 0.1) return oddValue(random);
  if (Array.isArray(value)) {
    if (value.length === 0 || random() < 0.2) return [...(value as unknown[]), oddValue(random)];
    const at = below(random, value.length);
    return value.map((element: unknown, index) => (index === at ? withOddMember(random, element) : element));
  }
  const names = Object.keys(value);
  const name = names[below(random, names.length)];
  if (name === undefined || random() < 0.15) return { ...value, [oddText(random)]: oddValue(random) };
  if (random() < 0.2) return Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));
  const member = (value as Record<string, unknown>)[name];
  return { ...value, [name]: random() < 0.5 ? withOddMember(random, member) : oddValue(random) };
}
