import type { Client } from 'pg';
import type { Statement } from '../../src/orders/order-page.js';

/** A node of EXPLAIN (FORMAT JSON), as far as tests look at it. */
export interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows'?: number;
  'Actual Loops'?: number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

/** The plan of a statement, as the client's role and under its row level security, and all its nodes in one list. */
export async function explain(client: Client, { text, values }: Statement): Promise<PlanNode[]> {
  const result = await client.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
    `EXPLAIN (ANALYZE, BUFFERS OFF, TIMING OFF, FORMAT JSON) ${text}`,
    values,
  );
  const [plan] = result.rows[0]?.['QUERY PLAN'] ?? [];
  return plan ? flatten(plan.Plan) : [];
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

/** Nodes that read all rows of orders, or sort more than a page. */
export function slowNodes(nodes: readonly PlanNode[], most: number): string[] {
  return nodes.flatMap((node) => {
    const type = node['Node Type'];
    const read = (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 1) + (node['Rows Removed by Filter'] ?? 0);
    if (type === 'Seq Scan' && node['Relation Name'] === 'orders') return ['Seq Scan on orders'];
    const rowsIn = (node.Plans ?? []).map((child) => child['Actual Rows'] ?? 0);
    if (/Sort/.test(type) && Math.max(...rowsIn) > most) return [`${type} of ${Math.max(...rowsIn)} rows`];
    if (/Scan/.test(type) && read > most) return [`${type} that reads ${read} rows`];
    return [];
  });
}

/** A plan in one line, for messages. */
export function describePlan(nodes: readonly PlanNode[]): string {
  return nodes.map((node) => [node['Node Type'], node['Index Name']].filter(Boolean).join(' ')).join(' < ');
}
