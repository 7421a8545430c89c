/*
 * The TypeScript client: `node scripts/client.mjs` writes its types from openapi.json and builds it, `--check` only says
 * whether the committed types are current and everything compiles.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const ROOT = dirname(import.meta.dirname);
const CLIENT = join(ROOT, 'clients', 'typescript');
const TYPES = join(CLIENT, 'src', 'schema.ts');
const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

const isCheck = process.argv.includes('--check');
const types = makeTypes();
if (!isCheck) writeFileSync(TYPES, types);
const isCurrent = readFileSync(TYPES, 'utf8') === types;
if (!isCurrent) process.stdout.write('The client’s types are not what openapi.json says.\n');
const compiled = run('tsc', ['-p', CLIENT, ...(isCheck ? ['--noEmit'] : [])]);
process.exitCode = isCurrent && compiled ? 0 : 1;

function makeTypes() {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-client-'));
  try {
    const document = JSON.parse(readFileSync(join(ROOT, 'openapi.json'), 'utf8'));
    const [source, target] = [join(folder, 'openapi.json'), join(folder, 'schema.ts')];
    writeFileSync(source, JSON.stringify(withOptionalKeys(document)));
    if (!run('openapi-typescript', [source, '--default-non-nullable=false', '-o', target])) process.exit(1);
    return readFileSync(target, 'utf8');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The service requires a key with every POST; the client sees to it, so its callers needn't. */
function withOptionalKeys(document) {
  for (const item of Object.values(document.paths)) {
    for (const method of METHODS) {
      const parameters = item[method]?.parameters ?? [];
      for (const parameter of parameters) if (parameter.name === 'Idempotency-Key') parameter.required = false;
    }
  }
  return document;
}

function run(command, args) {
  const binary = join(ROOT, 'node_modules', '.bin', command);
  const { status, stdout, stderr } = spawnSync(process.execPath, [binary, ...args], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) process.stdout.write(`${stdout}${stderr}`);
  return status === 0;
}
