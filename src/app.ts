import { type LogLevel, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule, type AppSettings } from './app.module.js';
import {
  installProblemHandlers,
  problemServerOptions,
  registerConditionalGet,
  registerJsonBody,
  registerRequestId,
} from './common/index.js';
import { openApiDocument } from './openapi.js';

export interface CreateAppOptions extends AppSettings {
  trustProxy: boolean | string;
  logLevel: LogLevel;
  /** Modules that extend the service, such as guards and hooks of a deployment. */
  extensions?: readonly Type<unknown>[];
}

/** The service, ready to listen: main and tests share it. */
export async function createApp(options: CreateAppOptions): Promise<NestFastifyApplication> {
  const adapter = new FastifyAdapter({ ...problemServerOptions, trustProxy: options.trustProxy });
  const fastify = adapter.getInstance();
  installProblemHandlers(fastify);
  registerRequestId(fastify);
  registerConditionalGet(fastify);
  registerJsonBody(fastify);

  const root = AppModule.register(options);
  root.imports = [...(root.imports ?? []), ...(options.extensions ?? [])];
  const app = await NestFactory.create<NestFastifyApplication>(root, adapter, {
    bodyParser: false,
    logger: levelsFrom(options.logLevel),
    abortOnError: false,
  });
  const document = openApiDocument(app);
  fastify.get('/openapi.json', (_request, reply) => reply.header('cache-control', 'no-cache').send(document));
  return app;
}

const LEVELS: readonly LogLevel[] = ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'];

function levelsFrom(level: LogLevel): LogLevel[] {
  return LEVELS.slice(0, LEVELS.indexOf(level) + 1);
}
