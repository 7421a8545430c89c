import { type Client, escapeIdentifier, escapeLiteral } from 'pg';

/*
 * The small part of psql that migrations/bootstrap.sql uses. The embedded server comes without psql, and administrators
 * of other servers have nothing but psql: both run the same file.
 */

export interface ScriptStep {
  section: string;
  /** statements to send, or for `connect` the database's name */
  text: string;
  kind: 'run' | 'gexec' | 'connect';
}

/**
 * Splits a script into steps. Understood are `:'name'` and `:"name"`, `\gexec` at the end of a query, `\connect`, and
 * comment lines `-- @section name`, which name the part that follows; `\set` lines are psql's own and skipped.
 * @throws Error when a variable has no value, or a psql command isn't one of these
 */
export function parseScript(source: string, variables: Record<string, string>): ScriptStep[] {
  const steps: ScriptStep[] = [];
  let section = '';
  let pending: string[] = [];
  const flush = (kind: 'run' | 'gexec', line?: string): void => {
    const text = substitute([...pending, ...(line === undefined ? [] : [line])].join('\n').trim(), variables);
    pending = [];
    if (text) steps.push({ section, text, kind });
  };
  let quoted = false;
  for (const line of source.split('\n')) {
    const command = /^\s*\\(\w+)\s*(.*?)\s*$/.exec(line);
    if (!quoted && command) {
      flush('run');
      if (command[1] === 'connect')
        steps.push({ section, text: unquote(substitute(command[2] ?? '', variables)), kind: 'connect' });
      else if (command[1] !== 'set') throw new Error(`\\${command[1]} is not understood outside of psql`);
    } else if (!quoted && line.startsWith('-- @section ')) {
      flush('run');
      section = line.slice('-- @section '.length).trim();
    } else if (!quoted && line.startsWith('--')) {
      continue;
    } else if (!quoted && /\\gexec\s*$/.test(line)) {
      flush('gexec', line.replace(/\\gexec\s*$/, ''));
    } else {
      if (line.split('$$').length % 2 === 0) quoted = !quoted;
      pending.push(line);
      // One statement a step: several in one message would be one transaction, which CREATE DATABASE refuses.
      if (!quoted && /;\s*$/.test(line)) flush('run');
    }
  }
  flush('run');
  return steps;
}

function substitute(text: string, variables: Record<string, string>): string {
  return text.replaceAll(/(?<!:):(['"])(\w+)\1/g, (_match, quote: string, name: string) => {
    const value = variables[name];
    if (value === undefined) throw new Error(`The script needs a value for ${name}`);
    return quote === "'" ? escapeLiteral(value) : escapeIdentifier(value);
  });
}

function unquote(identifier: string): string {
  return identifier.replace(/^"|"$/g, '').replaceAll('""', '"');
}

/** Runs the steps in order, in sessions of their own; `open` makes the connection to a database. */
export async function runScript(
  steps: ScriptStep[],
  database: string,
  open: (database: string) => Promise<Client>,
): Promise<void> {
  let client = await open(database);
  try {
    for (const step of steps) {
      if (step.kind === 'connect') {
        await client.end();
        client = await open(step.text);
      } else if (step.kind === 'run') {
        await client.query(step.text);
      } else {
        const { rows } = await client.query<string[]>({ text: step.text, rowMode: 'array' });
        for (const statement of rows.flat()) await client.query(statement);
      }
    }
  } finally {
    await client.end().catch(() => undefined);
  }
}
