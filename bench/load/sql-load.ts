export interface SqlLoad {
  /** Null where pgbench isn't installed. */
  pgbench: string | null;
  url: string;
  /** One transaction: statements that end with a semicolon, one a line; `\set key random(…)` is its one variable. */
  script: string;
  clients: number;
  seconds: number;
  postgres: number;
}
