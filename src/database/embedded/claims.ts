import { randomUUID } from 'node:crypto';
import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { processToken } from './process-identity.js';

/*
 * Files that say "this process has it": the lock on a data folder, and the list of its users. They must survive
 * kill -9, so a claim names its process so exactly that anybody can see whether that process still lives.
 */

const LOCK_POLL_MS = 50;
/** A claim is made, then filled; an empty one that is older than this belongs to a process killed in between. */
const EMPTY_CLAIM_GRACE_MS = 2_000;

function claimText(): string {
  return JSON.stringify({ pid: process.pid, token: processToken(process.pid), nonce: randomUUID() });
}

async function readClaim(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined);
}

async function isLive(file: string, text: string): Promise<boolean> {
  try {
    const claim = JSON.parse(text) as { pid: number; token?: string };
    return claim.token !== undefined && processToken(claim.pid) === claim.token;
  } catch {
    const age = await stat(file).then(
      (found) => Date.now() - found.mtimeMs,
      () => 0,
    );
    return age < EMPTY_CLAIM_GRACE_MS;
  }
}

/** Runs `work` while this process alone holds `file`; waits for a live holder, takes over from a dead one. */
export async function withLock<T>(file: string, onWait: () => void, work: () => Promise<T>): Promise<T> {
  const text = claimText();
  for (let told = false; !(await tryLock(file, text)); await sleep(LOCK_POLL_MS)) {
    const held = await readClaim(file);
    if (held === undefined) continue;
    if (!(await isLive(file, held))) await breakLock(file, held);
    else if (!told) {
      told = true;
      onWait();
    }
  }
  try {
    return await work();
  } finally {
    if ((await readClaim(file)) === text) await rm(file, { force: true });
  }
}

async function tryLock(file: string, text: string): Promise<boolean> {
  try {
    await writeFile(file, text, { flag: 'wx', mode: 0o644 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Removes the lock of a dead process. Two may try at once, and the slower must not remove the faster one's new lock:
 * so the file is moved aside, looked at, and put back when it isn't the one that was found dead.
 */
async function breakLock(file: string, dead: string): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch {
    return; // somebody else was faster
  }
  if ((await readClaim(aside)) !== dead) await link(aside, file).catch(() => undefined);
  await rm(aside, { force: true });
}

/** Enters this process into the list of users in `folder`; the returned function takes it out again. */
export async function addUser(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${process.pid}-${randomUUID()}`);
  await writeFile(file, claimText(), { flag: 'wx' });
  return () => rm(file, { force: true });
}

/** How many users in `folder` still live; forgets the dead ones. */
export async function countUsers(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  let live = 0;
  for (const name of names) {
    const file = join(folder, name);
    const text = await readClaim(file);
    if (text !== undefined && (await isLive(file, text))) live += 1;
    else await rm(file, { force: true });
  }
  return live;
}
