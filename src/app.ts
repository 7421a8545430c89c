import type { Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.js';
import {
  installProblemHandlers,
  problemServerOptions,
  registerConditionalGet,
  registerJsonBody,
  registerRequestId,
} from './common/index.js';
import type { ServiceConfig } from './config.js';
import { hardenHttp } from './http/index.js';
import { ServiceLogger } from './logger.js';
import { openApiDocument } from './openapi.js';

/** The service, ready to listen: main and tests share it. */
export async function createApp(
  config: ServiceConfig,
  extensions: readonly Type<unknown>[] = [],
): Promise<NestFastifyApplication> {
  const adapter = new FastifyAdapter({ ...problemServerOptions, trustProxy: config.trustProxy });
  const fastify = adapter.getInstance();
  installProblemHandlers(fastify);
  registerRequestId(fastify);
  await hardenHttp(fastify, config);
  registerConditionalGet(fastify);
  registerJsonBody(fastify);

  const app = await NestFactory.create<NestFastifyApplication>(AppModule.register(config, extensions), adapter, {
    bodyParser: false,
    logger: new ServiceLogger(config.logLevel),
    abortOnError: false,
  });
  const document = openApiDocument(app);
  fastify.get('/openapi.json', (_request, reply) => reply.header('cache-control', 'no-cache').send(document));
  return app;
}
