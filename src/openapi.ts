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
    .addTag('health', 'For operators')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key.' })
    .build();
  const document = SwaggerModule.createDocument(app, config);
  publishIdempotencyPolicy(document, app.get(IDEMPOTENCY_POLICY));
  return document;
}

/** The Swagger page at /docs. Apart from `createApp`, since its assets can't be served under Jest. */
export function mountSwaggerUi(app: INestApplication): void {
  SwaggerModule.setup('docs', app, openApiDocument(app), { raw: false, customSiteTitle: 'Waybill API' });
}
