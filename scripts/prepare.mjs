/*
 * Makes a checkout ready to run: `node scripts/prepare.mjs [--build]`. Installs the dependencies when they are missing or
 * differ from package-lock.json; with --build also compiles the sources when they have changed. Quick when there is nothing
 * to do. It runs before there are any dependencies, so it uses Node's built-ins only.
 *
 * Each job leaves a marker, written last: after a kill -9 the marker is missing, and the job is done again.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { withLock } from './lock.mjs';

const ROOT = dirname(import.meta.dirname);
const INSTALL_MARKER = join(ROOT, 'node_modules', '.waybill-installed');
const BUILD_MARKER = join(ROOT, 'dist', '.waybill-built');

function say(line) {
  process.stderr.write(`${line}\n`);
}

function digest(...texts) {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex');
}

function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

// Binaries differ by platform: a node_modules that was carried to another one is not installed there.
function wantedInstall() {
  return digest(process.platform, process.arch, read(join(ROOT, 'package-lock.json')) ?? '');
}

function isInstalled() {
  return read(INSTALL_MARKER) === wantedInstall();
}

/** Whether somebody ran npm by hand: npm's own record of what it installed agrees with the lock file. */
function isInstalledByHand() {
  const record = read(join(ROOT, 'node_modules', '.package-lock.json'));
  const lock = read(join(ROOT, 'package-lock.json'));
  if (record === undefined || lock === undefined) return false;
  const present = JSON.parse(record).packages;
  const wanted = Object.entries(JSON.parse(lock).packages);
  return wanted.every(([path, entry]) => {
    const found = present[path];
    if (found) return found.version === entry.version && existsSync(join(ROOT, path));
    return path === '' || entry.optional === true; // an optional one may be for another platform
  });
}

async function install(share) {
  if (isInstalledByHand()) return writeFileSync(INSTALL_MARKER, wantedInstall());
  say('Installing dependencies (npm ci, about a minute the first time) …');
  const started = Date.now();
  rmSync(INSTALL_MARKER, { force: true });
  // Under `npm start` npm names itself; NODE_ENV=production must not leave out what the build needs.
  const self = process.env.npm_execpath ?? '';
  const options = ['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error'];
  if (basename(self) === 'npm-cli.js') await run('npm ci', process.execPath, [self, ...options], share);
  else await run('npm ci', 'npm', options, share);
  writeFileSync(INSTALL_MARKER, wantedInstall());
  say(`Dependencies installed in ${seconds(started)}.`);
}

function wantedBuild() {
  const settings = ['tsconfig.json', 'tsconfig.build.json', 'nest-cli.json', 'package.json'];
  const files = [...settings, ...['src', 'demo', 'examples', 'extensions'].flatMap(sources)];
  return digest(wantedInstall(), ...files.flatMap((file) => [file, read(join(ROOT, file)) ?? '']));
}

function sources(folder) {
  if (!existsSync(join(ROOT, folder))) return [];
  const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.name.endsWith('.spec.ts'));
  return files.map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(ROOT.length + 1)).toSorted();
}

function isBuilt() {
  return read(BUILD_MARKER) === wantedBuild();
}

async function build(share) {
  say('Building …');
  const started = Date.now();
  const wanted = wantedBuild(); // taken before: a file saved during the build makes the next start build again
  // Everything goes: tsc's record of an earlier build would keep it from writing files that a kill -9 left out.
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
  const nest = join(ROOT, 'node_modules', '@nestjs', 'cli', 'bin', 'nest.js');
  await run('The build', process.execPath, [nest, 'build'], share);
  writeFileSync(BUILD_MARKER, wanted);
  say(`Built in ${seconds(started)}.`);
}

function seconds(started) {
  return `${((Date.now() - started) / 1000).toFixed(1)} s`;
}

async function run(what, command, options, share) {
  // Its output goes where progress goes, so that the caller's stdout stays its own.
  const child = spawn(command, options, { cwd: ROOT, stdio: ['ignore', 2, 2] });
  if (child.pid !== undefined) share(child.pid);
  const failure = await new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code === 0 ? undefined : (signal ?? `exit code ${code}`)));
  });
  if (failure === undefined) return;
  say(`${what} failed (${failure}); see above.`);
  throw new PrepareError();
}

class PrepareError extends Error {}

const withBuild = process.argv.includes('--build');
const isReady = () => isInstalled() && (!withBuild || isBuilt());

if (!isReady()) {
  mkdirSync(join(ROOT, '.waybill'), { recursive: true });
  const lock = join(ROOT, '.waybill', 'prepare.lock');
  const waiting = () => say('Waiting for another process that prepares this checkout …');
  await withLock(lock, waiting, async (share) => {
    if (!isInstalled()) await install(share);
    if (withBuild && !isBuilt()) await build(share);
  }).catch((error) => {
    if (!(error instanceof PrepareError)) say(`Could not prepare the checkout: ${error.message}`);
    process.exitCode = 1;
  });
}
