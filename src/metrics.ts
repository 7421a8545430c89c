import type { INestApplicationContext } from '@nestjs/common';
import { SealerMetrics } from './audit/index.js';
import { type PeriodicTask, PeriodicTasks } from './background/index.js';
import { DatabaseProbe } from './database/index.js';
import { CallRecoverer, KeySweeper } from './idempotency/index.js';
import { type ServiceMetrics, StepCounter } from './observability/index.js';
import { PaymentWebhooksService } from './payments/index.js';
import { WorkflowService } from './workflow/index.js';

/** Adds what the parts of the service know of themselves: they count, and don't know that anybody reads it. */
export function measureParts(app: INestApplicationContext, metrics: ServiceMetrics): void {
  const database = app.get(DatabaseProbe);
  metrics.gauge('waybill_db_pool_connections', 'Open connections to the database.', () => database.pool().total);
  metrics.gauge('waybill_db_pool_idle', 'Open connections that no request uses.', () => database.pool().idle);
  metrics.gauge('waybill_db_pool_waiting', 'Requests that wait for a connection.', () => database.pool().waiting);
  metrics.gauge('waybill_database_up', '1 when the database answers within 2 s and takes writes, otherwise 0.', () =>
    database.ping().then(
      () => 1,
      () => 0,
    ),
  );
  const sweeper = app.get(KeySweeper, { strict: false });
  metrics.counter(
    'waybill_sweeper_swept_rows_total',
    'Expired idempotency keys removed by this process.',
    () => sweeper.figures.sweptRows,
  );
  metrics.gauge(
    'waybill_sweeper_backlog_rows',
    'Expired keys that the last round left; NaN before the first.',
    () => sweeper.figures.backlogRows ?? Number.NaN,
  );

  const sealer = app.get(SealerMetrics, { strict: false });
  metrics.gauge(
    'waybill_sealer_backlog_events',
    'Events that this process saw waiting to be sealed.',
    () => sealer.figures().backlog,
  );
  metrics.gauge(
    'waybill_sealer_lag_seconds',
    'Age of the oldest event that waits to be sealed.',
    () => sealer.figures().lagSeconds,
  );
  metrics.counter(
    'waybill_sealer_sealed_events_total',
    'Events that this process sealed.',
    () => sealer.figures().sealed,
  );
  metrics.gauge(
    'waybill_sealer_refused_tenants',
    'Tenants whose log the sealer refuses to go on with.',
    () => sealer.figures().refused,
  );
  metrics.gauge(
    'waybill_sealer_held_tenants',
    'Tenants whose last checkpoint is sealed, but not published: too few witnesses have cosigned it.',
    () => sealer.figures().held,
  );
  metrics.counters(
    'waybill_witness_answers_total',
    'Answers of witnesses to this process: cosigned, away, refused, ahead or lied.',
    ['witness', 'answer'],
    () =>
      (sealer.witnesses?.figures() ?? []).flatMap(({ witness, cosigned, troubles }) =>
        Object.entries({ cosigned, ...troubles }).map(([answer, value]) => ({ labels: { witness, answer }, value })),
      ),
  );

  const recoverer = app.get(CallRecoverer, { strict: false });
  metrics.counter(
    'waybill_recovered_calls_total',
    'Calls to other systems that this process finished without their client.',
    () => recoverer.figures.finished,
  );
  metrics.counter(
    'waybill_recovery_postponed_calls_total',
    'Times that the result of an abandoned call was still unknown.',
    () => recoverer.figures.postponed,
  );
  const tasks = app.get(PeriodicTasks, { strict: false });
  const ofTasks = (read: (task: PeriodicTask<unknown>) => number) => () =>
    tasks.all().map((task) => ({ labels: { task: task.name }, value: read(task) }));
  metrics.counters(
    'waybill_background_rounds_total',
    'Rounds of background work that this process finished.',
    ['task'],
    ofTasks(({ figures }) => figures.rounds),
  );
  metrics.counters(
    'waybill_background_failed_rounds_total',
    'Rounds of background work that ended with an error.',
    ['task'],
    ofTasks(({ figures }) => figures.failedRounds),
  );
  const steps = new StepCounter();
  app.get(WorkflowService, { strict: false }).onCommittedStep((step) => steps.count(step));
  metrics.counters(
    'waybill_transitions_total',
    'Committed steps of state machines that this process made, by the state they lead to. Replays do not count again.',
    ['machine', 'to'],
    () => steps.all().map(({ step: { machine, to }, times }) => ({ labels: { machine, to }, value: times })),
  );
  let conflicts = 0;
  app.get(PaymentWebhooksService, { strict: false }).onConflict(() => {
    conflicts += 1;
  });
  metrics.counter(
    'waybill_payment_conflicts_total',
    "Events of providers that say what can't be so here, so that a person has to look.",
    () => conflicts,
  );
  metrics.counter(
    'waybill_payments_needing_reconciliation_total',
    'Payments and refunds whose result nobody could tell, so that a person has to look.',
    () => steps.timesTo('needs_reconciliation'),
  );
}
