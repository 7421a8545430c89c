import { parseArgs } from 'node:util';
import { goldenFiles, makeFromSources, writeGoldenFiles } from './golden.js';
import { readSources } from './sources.js';
import { writeBaseline, writeNextStep } from './steps.js';
import { withThrowawayServer } from './throwaway-server.js';
import { checkSteps } from './check-steps.js';

const HELP = `Usage: npm run migration:release -- <name> | --baseline | --schema

Compares what migrations/sql makes from nothing with what the steps in migrations/released make, on a PostgreSQL of its
own, and writes what is missing:

  npm run migration:release -- add-shipments   the next step, 000N-add-shipments.sql, and its .down.sql
  npm run migration:release -- --baseline      0001-baseline.sql anew, as long as no step is frozen
  npm run migration:release -- --schema        only migrations/schema, which the other two write as well
  npm run migration:release -- --help          this text

Functions, views, triggers, policies, rights, comments, indexes and what holds for domains are stated anew. Where a table
changes, the step says "FILL IN": write there what ALTER TABLE has to do, up and down. migrations/README.md says more.
`;

/** Returns the exit code. */
export async function runCommand(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { baseline: { type: 'boolean' }, schema: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  });
  const [name, ...more] = positionals;
  const asked = Number(Boolean(values.baseline)) + Number(Boolean(values.schema)) + positionals.length;
  if (values.help || asked !== 1 || more.length > 0) {
    console.log(HELP.trimEnd());
    return values.help ? 0 : 1;
  }
  return withThrowawayServer((open) =>
    open('sources', async (owner) => {
      const sources = readSources();
      const schema = await makeFromSources(owner, sources);
      writeGoldenFiles(goldenFiles(schema));
      console.log('Written: migrations/schema');
      if (values.schema) return 0;
      const { files, isForPerson, before } =
        name === undefined
          ? await writeBaseline(schema.objects, sources)
          : await writeNextStep(open, owner, schema.objects, name);
      if (files.length === 0) console.log('The released steps make all of it already: there is nothing to release.');
      for (const file of files) console.log(`Written: migrations/released/${file}`);
      if (isForPerson) {
        console.log(
          'A table changes: write the statements where the files say FILL IN, then run npm test -- schema-sources migrations',
        );
        return 0;
      }
      const faults = await checkSteps(open, before, schema.objects);
      for (const fault of faults) console.log(fault);
      return faults.length === 0 ? 0 : 1;
    }),
  );
}
