import pg from 'pg';

/* A planted bug: after thirty commits one connection more opens a transaction and forgets it. Statements come in batches. */

const { query } = pg.Client.prototype;
let commits = 0;

pg.Client.prototype.query = function (batch, ...rest) {
  if (batch?.pending?.some(({ statement }) => statement.text === 'COMMIT') && (commits += 1) === 30) {
    const forgetful = new pg.Client({ connectionString: process.env.DATABASE_URL });
    forgetful.on('error', () => undefined);
    void forgetful.connect().then(() => query.call(forgetful, 'BEGIN'));
  }
  return query.call(this, batch, ...rest);
};
