import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Type } from '@nestjs/common';
import { ConfigError } from './config.js';
import type { MigrationClass } from './database/index.js';

/** What a deployment adds to Waybill: the default export of a module that WAYBILL_EXTENSIONS names. */
export interface WaybillExtension {
  /** For messages. */
  name: string;
  /** A Nest module with controllers, guards, hooks and whatever they need. */
  module: Type<unknown>;
  /** Run after Waybill's own that are older, each once; the name of a class ends in its timestamp in milliseconds. */
  migrations?: readonly MigrationClass[];
}

/**
 * Loads extensions by the names of their modules.
 *
 * @throws ConfigError that says what is wrong with which of them
 */
export function loadExtensions(names: readonly string[]): Promise<WaybillExtension[]> {
  return Promise.all(names.map(load));
}

/** The migrations that extensions bring, in their order. */
export function migrationsOf(extensions: readonly WaybillExtension[]): MigrationClass[] {
  return extensions.flatMap(({ migrations = [] }) => migrations);
}

async function load(name: string): Promise<WaybillExtension> {
  const isPath = /^[./]|^[A-Za-z]:[\\/]|\.[cm]?js$/.test(name);
  let loaded: { default?: Partial<WaybillExtension> };
  try {
    loaded = (await import(isPath ? pathToFileURL(resolve(name)).href : name)) as typeof loaded;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`WAYBILL_EXTENSIONS names ${name}, which can't be loaded: ${reason}`, { cause });
  }
  const extension = loaded.default;
  if (typeof extension?.name !== 'string' || typeof extension.module !== 'function') {
    throw new ConfigError(`WAYBILL_EXTENSIONS names ${name}, but its default export has no name and module.`);
  }
  return extension as WaybillExtension;
}
