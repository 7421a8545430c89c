import type { INestApplication, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { completeDocument, readRecordedExamples, SWAGGER_PAGE } from './api-document/index.js';
import { AppModule } from './app.module.js';
import type { ServiceConfig } from './config.js';
import { Draining } from './health/index.js';
import { IDEMPOTENCY_POLICY, publishIdempotencyPolicy } from './idempotency/index.js';
import { ServiceMetrics } from './observability/index.js';
import { serviceVersion } from './version.js';

const DESCRIPTION = `
Order management: guarded transitions, writes that can be repeated, history that can be proven.

**Amounts** are integers in minor units of an ISO 4217 currency. **Times** are RFC 3339 in UTC with microseconds.

**Keys.** Every POST that has an effect carries an \`Idempotency-Key\`, made once for the action. Sent again, the same
request gets the same answer, byte for byte, and nothing happens twice. [How keys work](/docs/idempotency).

**Versions.** \`ETag\` is the version of a record. Send it back as \`If-Match\`, so that nobody's change is overwritten:
a PATCH requires it, a transition honours it.

**Pages.** A list answers \`{ "data": […], "next": … }\`. Pass \`next\` as \`cursor\` with the same sort and filter, until it is
null; the \`Link\` header holds the whole address. A cursor is opaque.

**Problems.** Every error is \`application/problem+json\` (RFC 9457). Decide by \`code\`, which is stable; \`type\` is the address
of a page that says what happened and what to do. \`X-Request-Id\` finds the request in the log.
`.trim();

/** The OpenAPI document of the whole service. */
export function openApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Waybill')
    .setDescription(DESCRIPTION)
    .setVersion('1')
    .addServer('/', 'This service')
    .addTag('orders', 'Place, read, change and move orders; every past version can be read')
    .addTag('payments', 'Authorize, capture, void and refund; what the provider reports')
    .addTag('audit', 'The sealed log: feed, proofs, export, verification')
    .addTag('customers', 'Erasure of personal data')
    .addTag('workflows', 'The state machines in force')
    .addTag('users', 'Who may act in the tenant; for administrators')
    .addTag('api-keys', 'What services sign in with; for administrators')
    .addTag('health', 'For operators')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key, `wb_…`.' }, API_KEY)
    .addBearerAuth(
      { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'A token of the identity provider.' },
      TOKEN,
    )
    .build();
  config.info.contact = { name: 'The team that runs this service' };
  const document = SwaggerModule.createDocument(app, config);
  publishIdempotencyPolicy(document, app.get(IDEMPOTENCY_POLICY));
  return completeDocument(withEitherCredential(document), readRecordedExamples());
}

/** The same without a database: nothing is instantiated, only the routes and their decorators are read. */
export async function describeApi(
  config: ServiceConfig,
  extensions: readonly Type<unknown>[] = [],
): Promise<OpenAPIObject> {
  const operation = { draining: new Draining(), metrics: new ServiceMetrics(serviceVersion()), tracing: null };
  const app = await NestFactory.create<NestFastifyApplication>(
    AppModule.register(config, operation, extensions),
    new FastifyAdapter(),
    { preview: true, logger: false, abortOnError: false },
  );
  return openApiDocument(app);
}

const API_KEY = 'apiKey';
const TOKEN = 'token';
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'] as const;

/** Controllers only say that credentials are needed (`@ApiBearerAuth()`); every such operation takes either kind. */
function withEitherCredential(document: OpenAPIObject): OpenAPIObject {
  for (const path of Object.values(document.paths)) {
    for (const method of METHODS) {
      const operation = path[method];
      if (operation?.security) operation.security = [{ [API_KEY]: [] }, { [TOKEN]: [] }];
    }
  }
  return document;
}

/** The Swagger page at /docs, where / leads to as well. Apart from `createApp`, since its assets can't be served under Jest. */
export function mountSwaggerUi(app: INestApplication): void {
  SwaggerModule.setup('docs', app, openApiDocument(app), SWAGGER_PAGE);
  app.getHttpAdapter().get('/', (_request: FastifyRequest, reply: FastifyReply) => reply.redirect('/docs'));
}
