import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.js';
import { prepareServer, registerRequestPath, serverOptions } from './http/index.js';
import type { ServiceConfig } from './config.js';
import { RequestTransactions } from './database/index.js';
import { Draining, drainingHooks } from './health/index.js';
import { measureParts } from './metrics.js';
import { RequestGate } from './identity/index.js';
import { createLog, observationHooks, ServiceLogger, ServiceMetrics, startTracing } from './observability/index.js';
import { openApiDocument } from './openapi.js';
import { PaymentWebhookGate } from './payments/index.js';
import { serviceVersion } from './version.js';

/** The service, ready to listen: main and tests share it. */
export async function createApp(
  config: ServiceConfig,
  extensions: readonly Type<unknown>[] = [],
): Promise<NestFastifyApplication> {
  const log = createLog({ level: config.logLevel, format: config.logFormat });
  const metrics = new ServiceMetrics(serviceVersion());
  const tracing = config.otlpEndpoint === null ? null : await startTracing(config.otlpEndpoint, serviceVersion());
  const adapter = new FastifyAdapter({ ...serverOptions, trustProxy: config.trustProxy });
  const fastify = adapter.getInstance();
  const draining = new Draining();
  const hooks = {
    ...observationHooks({ log, metrics, tracing }),
    ...prepareServer(fastify, config),
    ...drainingHooks(draining),
  };
  const provideHooks = await registerRequestPath(fastify, hooks, config);

  const module = AppModule.register(config, { draining, metrics, tracing }, extensions);
  const app = await NestFactory.create<NestFastifyApplication>(module, adapter, {
    bodyParser: false,
    logger: new ServiceLogger(log),
    abortOnError: false,
  });
  provideHooks({
    ...app.get(RequestGate, { strict: false }).hooks,
    ...app.get(PaymentWebhookGate, { strict: false }).hooks,
    ...app.get(RequestTransactions, { strict: false }).hooks,
  });
  measureParts(app, metrics);
  if (config.metricsPort === null) {
    fastify.get('/metrics', async (_request, reply) =>
      reply
        .header('cache-control', 'no-store')
        .type(metrics.registry.contentType)
        .send(await metrics.registry.metrics()),
    );
  }
  const document = openApiDocument(app);
  fastify.get('/openapi.json', (_request, reply) => reply.header('cache-control', 'no-cache').send(document));
  return app;
}
