import type { Command } from 'commander';
import { redact } from '../common/index.js';
import { withDatabase } from './database-address.js';
import { examine } from './doctor/examine.js';
import type { Finding } from './doctor/finding.js';

const MARKS: Readonly<Record<Finding['verdict'], string>> = {
  ok: 'ok   ',
  hint: 'hint ',
  fault: 'FAULT',
  unknown: '?    ',
};

export function addDoctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('Check settings, roles, rights, row security, triggers and versions of a deployment. Changes nothing')
    .option('--json', 'print the findings as one JSON document')
    .addHelpText(
      'after',
      '\nExit code: 0 nothing is wrong, 1 something is. Hints and what could not be checked count as 0.',
    )
    .action(async ({ json }: { json?: boolean }) => {
      const findings = await examine(withDatabase);
      const faults = findings.filter(({ verdict }) => verdict === 'fault').length;
      const text = json ? JSON.stringify({ healthy: faults === 0, findings }, null, 2) : readable(findings, faults);
      console.log(redact(text));
      if (faults > 0) process.exitCode = 1;
    });
}

function readable(findings: readonly Finding[], faults: number): string {
  const lines = findings.flatMap(({ check, verdict, detail, whatToDo }) => [
    `${MARKS[verdict]}  ${check.padEnd(16)}  ${detail}`,
    ...(whatToDo ? [`${' '.repeat(25)}→ ${whatToDo}`] : []),
  ]);
  const verdict = faults === 0 ? 'Nothing is wrong.' : `${faults} ${faults === 1 ? 'fault' : 'faults'}.`;
  return [...lines, '', verdict].join('\n');
}
