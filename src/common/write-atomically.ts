import { link, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes beside the file, brings it to the disk, and gives it its name only then: a reader finds the old text or the new. */
export async function writeAtomically(file: string, text: string, mode: number): Promise<void> {
  const temporary = await writeBeside(file, text, mode);
  await rename(temporary, file);
  await syncFolder(dirname(file));
}

/**
 * The same, but never in the place of a file that is there.
 *
 * @throws an error with the code EEXIST
 */
export async function createAtomically(file: string, text: string, mode: number): Promise<void> {
  const temporary = await writeBeside(file, text, mode);
  try {
    await link(temporary, file);
  } finally {
    await rm(temporary);
  }
  await syncFolder(dirname(file));
}

async function writeBeside(file: string, text: string, mode: number): Promise<string> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  await rm(temporary, { force: true });
  const handle = await open(temporary, 'wx', mode);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return temporary;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  await folder.sync().finally(() => folder.close());
}
