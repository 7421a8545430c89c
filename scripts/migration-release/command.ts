import { parseArgs } from 'node:util';
import { writeBaseline } from './baseline.js';

const HELP = `Usage: npm run migration:release -- --baseline

Writes migrations/released/0001-baseline.sql anew from migrations/sql, as long as it isn't frozen.
`;

/** Returns the exit code. */
export function runCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { baseline: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help || !values.baseline) {
    console.log(HELP.trimEnd());
    return Promise.resolve(values.help ? 0 : 1);
  }
  console.log(`Written: ${writeBaseline()}`);
  return Promise.resolve(0);
}
