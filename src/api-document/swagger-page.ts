import type { SwaggerCustomOptions } from '@nestjs/swagger';

/** How the Swagger page looks and behaves. */
export const SWAGGER_PAGE: SwaggerCustomOptions = {
  raw: false,
  customSiteTitle: 'Waybill API',
  customCss: `
.swagger-ui .topbar { display: none; }
.swagger-ui .info { margin: 28px 0 12px; }
.swagger-ui .info .title small { top: -3px; }
.swagger-ui .info .renderedMarkdown code { color: inherit; background: #eef2f1; font-size: 0.92em; padding: 1px 5px; }
.swagger-ui .scheme-container { margin: 0; padding: 12px 0; box-shadow: none; border-block: 1px solid #e4e0d8; }
.swagger-ui .opblock-tag { font-size: 20px; }
.swagger-ui .wrapper { max-width: 1180px; }
`,
  swaggerOptions: {
    // A key that was entered once stays, so that a reload doesn't ask again.
    persistAuthorization: true,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    // Of the schemas, only that they are there; the operations come first.
    defaultModelsExpandDepth: 0,
    defaultModelExpandDepth: 3,
    requestInterceptor: freshKey,
  },
};

interface PageRequest {
  headers: Record<string, string>;
}

/**
 * The page fills in the document's example of a key. Sent as it is, the second order of anybody would be refused as another
 * request under a used key, so each click gets a new one instead; a key that somebody typed is left alone. The page gets this
 * function as text, so it uses nothing from outside.
 */
export function freshKey(request: PageRequest): PageRequest {
  const name = 'Idempotency-Key';
  if (request.headers[name] === '8e03978e-40d5-43dd-bc93-6894a57f9324') {
    request.headers[name] = globalThis.crypto.randomUUID();
  }
  return request;
}
