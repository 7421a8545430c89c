/*
 * `npm run check`: everything that can be said of the code without running it. All steps run, so that one call shows all
 * that is to be done; the exit code says whether any of them found something.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';

const ROOT = dirname(import.meta.dirname);

const STEPS = [
  { name: 'format', command: 'prettier', args: ['--check', '--log-level', 'warn', '.'], fix: 'npm run format' },
  { name: 'lint', command: 'oxlint', args: ['--deny-warnings'], fix: 'correct what it names' },
  { name: 'types', command: 'tsc', args: ['--noEmit', '-p', 'tsconfig.json'], fix: 'correct what it names' },
  {
    name: 'import rules',
    command: 'depcruise',
    args: ['src', 'scripts', 'demo', 'bench', 'examples', 'clients/typescript/src', 'test', '--output-type', 'err'],
    fix: 'see "Who may import whom" in docs/architecture.md',
  },
  {
    name: 'API document',
    command: 'spectral',
    args: ['lint', 'openapi.json', '--fail-severity', 'hint', '--quiet'],
    fix: 'correct the decorators; UPDATE_GOLDEN=1 npm test -- openapi api-examples writes openapi.json anew',
  },
  {
    name: 'TypeScript client',
    script: 'scripts/client.mjs',
    args: ['--check'],
    fix: 'node scripts/client.mjs writes its types anew',
  },
  { name: 'dead code', command: 'knip', args: ['--no-config-hints'], fix: 'delete what nothing uses' },
  { name: 'build', command: 'nest', args: ['build'], fix: 'correct what it names' },
];

const failed = STEPS.filter(({ name, command, script, args }) => {
  process.stdout.write(`── ${name}\n`);
  const { status } = spawnSync(process.execPath, [script ?? binaryOf(command), ...args], {
    cwd: ROOT,
    stdio: 'inherit',
  });
  return status !== 0;
});

for (const { name, fix } of failed) process.stdout.write(`${name} found something: ${fix}\n`);
process.stdout.write(failed.length === 0 ? 'All checks are clean.\n' : '');
process.exitCode = failed.length === 0 ? 0 : 1;

/** The package's script itself: npm's shims differ by platform. */
function binaryOf(command) {
  return join(ROOT, 'node_modules', '.bin', command);
}
