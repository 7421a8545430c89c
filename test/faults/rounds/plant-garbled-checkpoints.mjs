import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/* A bug, put in on purpose: what is published has a line more than what was signed. */

const { rename, appendFile } = files;
files.rename = async (from, to) => {
  if (String(to).endsWith('.checkpoint')) await appendFile(from, 'garbled\n');
  return rename(from, to);
};
syncBuiltinESMExports();
