import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { IDEMPOTENCY_POLICY, publishIdempotencyPolicy } from './idempotency/index.js';

/** The OpenAPI document of the whole service. */
export function openApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Waybill')
    .setDescription(
      'Order management: guarded transitions, history that can be proven. Amounts are integers in minor units, times RFC 3339 in UTC. Errors are problems (RFC 9457); each type is the address of a page that explains it.',
    )
    .setVersion('1')
    .addTag('orders', 'Place, read, change and move orders; every past version can be read')
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
  const document = SwaggerModule.createDocument(app, config);
  publishIdempotencyPolicy(document, app.get(IDEMPOTENCY_POLICY));
  return withEitherCredential(document);
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

/** The Swagger page at /docs. Apart from `createApp`, since its assets can't be served under Jest. */
export function mountSwaggerUi(app: INestApplication): void {
  SwaggerModule.setup('docs', app, openApiDocument(app), { raw: false, customSiteTitle: 'Waybill API' });
}
