import { parseWitnessKey, requireDistinct } from '../audit/witness/cosignature.js';
import type { WitnessPolicy } from '../audit/witness/witnesses.js';
import { ConfigError, duration, integer, list } from './values.js';

const MOST = 32;

/**
 * Who cosigns checkpoints before they are published; null where nobody does.
 *
 * @throws ConfigError
 */
export function witnessPolicy(env: NodeJS.ProcessEnv): WitnessPolicy | null {
  const entries = list(env.AUDIT_WITNESSES);
  if (entries.length === 0) {
    if (env.AUDIT_WITNESS_QUORUM) throw new ConfigError('AUDIT_WITNESS_QUORUM is set, but AUDIT_WITNESSES is not.');
    return null;
  }
  if (entries.length > MOST) throw new ConfigError(`AUDIT_WITNESSES has more than ${MOST} witnesses.`);
  const witnesses = entries.map((entry) => {
    const [key = '', url = '', ...rest] = entry.split(/\s+/);
    if (rest.length > 0 || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
      throw new ConfigError(
        `AUDIT_WITNESSES must be verifier keys, each with a space and the witness's address behind it, separated by commas, such as "w1+1f2e3d4c+BAbc… https://witness.example.com", not "${entry}".`,
      );
    }
    return { key: readKey(() => parseWitnessKey(key)), url: url.replace(/\/+$/, '') };
  });
  readKey(() => requireDistinct(witnesses.map(({ key }) => key)));
  // More than half: two quorums have a witness in common, so that two histories can't both have one.
  const majority = Math.floor(witnesses.length / 2) + 1;
  return {
    witnesses,
    quorum: integer(env, 'AUDIT_WITNESS_QUORUM', majority, 1, witnesses.length),
    timeout: duration(env, 'AUDIT_WITNESS_TIMEOUT', '5s'),
  };
}

function readKey<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`AUDIT_WITNESSES: ${error instanceof Error ? error.message : String(error)}.`);
  }
}
