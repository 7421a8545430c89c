#!/usr/bin/env node
import { Command } from 'commander';
import { redact } from '../common/redact.js';

type AddCommand = (program: Command) => void;

/** Each is loaded when it is called: a verification needs nothing of the service. The list of all needs all. */
const COMMANDS: Record<string, () => Promise<AddCommand>> = {
  serve: async () => (await import('./serve-command.js')).addServeCommand,
  migrate: async () => (await import('./migrate-command.js')).addMigrateCommand,
  audit: async () => (await import('./audit/audit-command.js')).addAuditCommand,
  idempotency: async () => (await import('./idempotency-command.js')).addIdempotencyCommand,
  tenant: async () => (await import('./tenant-command.js')).addTenantCommand,
  user: async () => (await import('./user-command.js')).addUserCommand,
  key: async () => (await import('./key-command.js')).addKeyCommand,
  doctor: async () => (await import('./doctor-command.js')).addDoctorCommand,
};

const program = new Command('waybill').description('Order management: serve it, migrate it, look after it.');
const called = process.argv[2] ?? '';
const load = Object.hasOwn(COMMANDS, called) ? [COMMANDS[called]!] : Object.values(COMMANDS);
for (const add of await Promise.all(load.map((command) => command()))) add(program);

try {
  await program.parseAsync();
} catch (error) {
  console.error(redact(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
