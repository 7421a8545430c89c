import { readFileSync } from 'node:fs';
import { findUp } from './database/embedded/index.js';

/** The version of this service, as package.json says it. */
export function serviceVersion(): string {
  const file = findUp(import.meta.url, 'package.json');
  if (!file) throw new Error('package.json is missing from this installation');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
