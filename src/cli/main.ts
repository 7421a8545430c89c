#!/usr/bin/env node
import { Command } from 'commander';
import { addAuditCommand } from './audit/audit-command.js';
import { addIdempotencyCommand } from './idempotency-command.js';
import { addMigrateCommand } from './migrate-command.js';
import { addServeCommand } from './serve-command.js';

const program = new Command('waybill').description('Order management: serve it, migrate it, look after it.');
addServeCommand(program);
addMigrateCommand(program);
addAuditCommand(program);
addIdempotencyCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
