#!/usr/bin/env node
import { Command } from 'commander';
import { addAuditCommand } from './audit/audit-command.js';
import { addIdempotencyCommand } from './idempotency-command.js';
import { redact } from '../common/index.js';
import { addKeyCommand } from './key-command.js';
import { addDoctorCommand } from './doctor-command.js';
import { addMigrateCommand } from './migrate-command.js';
import { addServeCommand } from './serve-command.js';
import { addTenantCommand } from './tenant-command.js';
import { addUserCommand } from './user-command.js';

const program = new Command('waybill').description('Order management: serve it, migrate it, look after it.');
addServeCommand(program);
addMigrateCommand(program);
addAuditCommand(program);
addIdempotencyCommand(program);
addTenantCommand(program);
addUserCommand(program);
addKeyCommand(program);
addDoctorCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  console.error(redact(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
