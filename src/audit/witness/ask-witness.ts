import { fetchLimited, Unreachable } from '../fetch-limited.js';
import { NoteError } from '../format/signed-note.js';
import { addCheckpointBody, parseSize } from './add-checkpoint.js';
import { type Cosignature, cosignaturesOn, type WitnessKey } from './cosignature.js';

/** A witness as a log knows it. */
export interface WitnessAddress {
  key: WitnessKey;
  /** Submission prefix of tlog-witness, without a slash at its end. */
  url: string;
}

/** A checkpoint that a log asks for cosignatures of. */
export interface Submission {
  /** Signed by the log. */
  note: string;
  size: number;
  /** Consistency proof from a smaller size, or the same, to this one. */
  proofFrom(size: number): Promise<Buffer[]>;
}

/**
 * Why a witness did not cosign. `away`: it didn't answer, or can't now. `refused`: it says that the request is wrong.
 * `ahead`: it cosigned a larger checkpoint of this log, which the log doesn't have. `lied`: the answer isn't what a witness
 * answers, such as a wrong signature.
 */
export type WitnessTrouble = 'away' | 'refused' | 'ahead' | 'lied';

export class NotCosigned extends Error {
  override readonly name = 'NotCosigned';

  constructor(
    readonly trouble: WitnessTrouble,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Most bytes of an answer: signature lines, or a size. */
const ANSWER_LIMIT = 64 * 1024;
/** Statuses that say nothing of the request. */
const IS_AWAY = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/**
 * Asks for a cosignature, once more with the size that the witness names when it remembers another one.
 *
 * @param known size that this witness cosigned last, as far as is known
 * @throws NotCosigned
 */
export async function askWitness(
  witness: WitnessAddress,
  submission: Submission,
  known: number,
  signal: AbortSignal,
): Promise<Cosignature> {
  const first = await post(witness, submission, Math.min(known, submission.size), signal);
  if (first.status !== 409) return cosignatureIn(witness, submission, first);
  const size = sizeIn(first, submission);
  const second = await post(witness, submission, size, signal);
  if (second.status === 409) {
    throw new NotCosigned('away', `${witness.key.name} is asked by somebody else as well: it answered two sizes`);
  }
  return cosignatureIn(witness, submission, second);
}

interface Answer {
  status: number;
  body: string;
}

async function post(
  { key, url }: WitnessAddress,
  { note, proofFrom }: Submission,
  oldSize: number,
  signal: AbortSignal,
): Promise<Answer> {
  const body = addCheckpointBody({ oldSize, proof: oldSize === 0 ? [] : await proofFrom(oldSize), note });
  const init = { method: 'POST', headers: { 'content-type': 'text/plain; charset=utf-8' }, body, signal };
  try {
    const answer = await fetchLimited(`${url}/add-checkpoint`, init, ANSWER_LIMIT);
    return { status: answer.status, body: answer.body.toString('utf8') };
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    throw new NotCosigned('away', `${key.name} does not answer: ${error.message}`, { cause: error });
  }
}

function cosignatureIn({ key }: WitnessAddress, { note }: Submission, { status, body }: Answer): Cosignature {
  if (status !== 200) {
    if (status === 404) {
      const advice = 'give whoever runs it the verifier key that `waybill audit keys` prints';
      throw new NotCosigned('refused', `${key.name} does not know this log: ${advice}`);
    }
    const said = `${key.name} answered ${status}: ${body.trim().slice(0, 200)}`;
    throw new NotCosigned(IS_AWAY(status) ? 'away' : 'refused', said);
  }
  try {
    const [cosignature] = cosignaturesOn(note + body, [key]);
    if (cosignature) return cosignature;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new NotCosigned('lied', `${key.name} answered with what is no cosignature by it: ${error.message}`, {
      cause: error,
    });
  }
  throw new NotCosigned('lied', `${key.name} answered without a cosignature by its key`);
}

function sizeIn({ body }: Answer, { size }: Submission): number {
  const theirs = body.endsWith('\n') ? parseSize(body.slice(0, -1)) : null;
  if (theirs === null) throw new NotCosigned('lied', 'the witness answered 409 without a size');
  if (theirs <= size) return theirs;
  throw new NotCosigned(
    'ahead',
    `the witness has cosigned ${theirs} leaves of this log, which has ${size}: it was cut, or another log signs by its name`,
  );
}
