import { type Cosignature } from './cosignature.js';
import { askWitness, NotCosigned, type Submission, type WitnessAddress, type WitnessTrouble } from './ask-witness.js';

export interface WitnessPolicy {
  witnesses: readonly WitnessAddress[];
  /** How many of them must have cosigned what is published. */
  quorum: number;
  /** Milliseconds for which one request of a witness may take. */
  timeout: number;
}

export interface Witnessing {
  /** The note with a line of each witness that cosigned. */
  note: string;
  cosigned: number;
  hasQuorum: boolean;
  /** The others, each with its reason. */
  troubles: { witness: string; trouble: WitnessTrouble; message: string }[];
}

/** What became of questions to one witness, counted since the start. */
export interface WitnessFigures {
  witness: string;
  cosigned: number;
  troubles: Readonly<Record<WitnessTrouble, number>>;
}

/** Milliseconds for which the rest may still answer once the quorum is there. */
const GRACE = 250;
/** A witness that is away is not asked for so long; it doubles each time. */
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;

interface Memory {
  cosigned: number;
  troubles: Record<WitnessTrouble, number>;
  /** Size that it cosigned last, by origin. */
  sizes: Map<string, number>;
  pause: number;
  pausedUntil: number;
}

/** The witnesses that a service publishes with. */
export class Witnesses {
  private readonly memories: Map<WitnessAddress, Memory>;

  constructor(
    private readonly policy: WitnessPolicy,
    /** Milliseconds of a clock that only goes on. */
    private readonly now: () => number = () => performance.now(),
  ) {
    this.memories = new Map(
      policy.witnesses.map((witness) => [
        witness,
        {
          cosigned: 0,
          troubles: { away: 0, refused: 0, ahead: 0, lied: 0 },
          sizes: new Map(),
          pause: FIRST_PAUSE,
          pausedUntil: 0,
        },
      ]),
    );
  }

  get quorum(): number {
    return this.policy.quorum;
  }

  figures(): WitnessFigures[] {
    return [...this.memories].map(([{ key }, { cosigned, troubles }]) => ({ witness: key.name, cosigned, troubles }));
  }

  /** Asks all of them at once, and waits for the quorum and a moment longer. */
  async cosign(origin: string, submission: Submission): Promise<Witnessing> {
    const enough = new AbortController();
    const cosignatures: Cosignature[] = [];
    const troubles: Witnessing['troubles'] = [];
    const asked = this.policy.witnesses.map(async (witness) => {
      try {
        cosignatures.push(await this.ask(witness, origin, submission, enough.signal));
        if (cosignatures.length === this.quorum) setTimeout(() => enough.abort(), GRACE).unref();
      } catch (error) {
        if (!(error instanceof NotCosigned)) throw error;
        troubles.push({ witness: witness.key.name, trouble: error.trouble, message: error.message });
      }
    });
    await Promise.all(asked);
    // In the order of the settings, whoever answered first.
    const lines = this.policy.witnesses.flatMap(({ key }) =>
      cosignatures.filter(({ witness }) => witness === key).map(({ line }) => line),
    );
    const hasQuorum = cosignatures.length >= this.quorum;
    return { note: submission.note + lines.join(''), cosigned: cosignatures.length, hasQuorum, troubles };
  }

  private async ask(
    witness: WitnessAddress,
    origin: string,
    submission: Submission,
    enough: AbortSignal,
  ): Promise<Cosignature> {
    const memory = this.memories.get(witness)!;
    if (this.now() < memory.pausedUntil) {
      throw new NotCosigned('away', `${witness.key.name} did not answer a moment ago and is not asked again yet`);
    }
    try {
      const signal = AbortSignal.any([enough, AbortSignal.timeout(this.policy.timeout)]);
      const cosignature = await askWitness(witness, submission, memory.sizes.get(origin) ?? 0, signal);
      memory.cosigned += 1;
      memory.sizes.set(origin, submission.size);
      memory.pause = FIRST_PAUSE;
      return cosignature;
    } catch (error) {
      // Slower than the others is not away.
      if (error instanceof NotCosigned && !enough.aborted) this.remember(memory, error.trouble);
      throw error;
    }
  }

  private remember(memory: Memory, trouble: WitnessTrouble): void {
    memory.troubles[trouble] += 1;
    if (trouble !== 'away') return;
    memory.pausedUntil = this.now() + memory.pause;
    memory.pause = Math.min(memory.pause * 2, LONGEST_PAUSE);
  }
}
