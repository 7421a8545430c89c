import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';

/** What a page of another origin may read beside the few headers that browsers always show. */
const EXPOSED_HEADERS = [
  'Content-Disposition',
  'ETag',
  'Idempotency-Created-At',
  'Idempotency-Replayed',
  'Link',
  'Location',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
];
const PREFLIGHT_SECONDS = 600;

/** CORS for these origins; without any, pages of other origins can't call the service. */
export async function allowOrigins(fastify: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return;
  await fastify.register(cors, {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    strictPreflight: false,
  });
}
