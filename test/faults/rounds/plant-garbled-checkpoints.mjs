import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/* A bug, put in on purpose: what is published has a line more than what was signed. */

const { link, chmod, appendFile } = files;
files.link = async (from, to) => {
  await chmod(from, 0o644);
  await appendFile(from, '— garbled AAAAAAAA\n');
  return link(from, to);
};
syncBuiltinESMExports();
