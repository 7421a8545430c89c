import { randomBytes } from 'node:crypto';

/**
 * JSON text that an answer holds as it is, such as the database made it, and that is not parsed only to be written again
 * (docs/performance.md).
 */
export class RawJson {
  constructor(private readonly text: string) {}

  /** What the text says. */
  get value(): unknown {
    return JSON.parse(this.text);
  }

  /** Of an object: the same with members before its own. */
  withMembers(members: Record<string, unknown>): RawJson {
    const head = JSON.stringify(members);
    if (head !== '{}' && this.text.startsWith('{"')) return new RawJson(`${head.slice(0, -1)},${this.text.slice(1)}`);
    return new RawJson(JSON.stringify({ ...members, ...(JSON.parse(this.text) as object) }));
  }

  /** For `writeJson` the place to put the text; for anybody else the value. */
  toJSON(): unknown {
    if (!placed) return this.value;
    placed.push(this.text);
    return PLACE;
  }
}

/** Random, so that no text of a client's can be taken for it. */
const PLACE = randomBytes(16).toString('hex');
/** While JSON is written: the texts whose places are taken, in order. */
let placed: string[] | undefined;

/** JSON.stringify that leaves every `RawJson` as it is. */
export function writeJson(value: unknown): string {
  placed = [];
  try {
    const text = JSON.stringify(value);
    if (placed.length === 0) return text;
    const [first = '', ...parts] = text.split(`"${PLACE}"`);
    return parts.reduce((written, part, index) => `${written}${placed?.[index]}${part}`, first);
  } finally {
    placed = undefined;
  }
}
