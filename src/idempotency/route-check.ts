import { Stream } from 'node:stream';
import { Injectable, type OnModuleInit, StreamableFile } from '@nestjs/common';
import {
  METHOD_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  RESPONSE_PASSTHROUGH_METADATA,
  ROUTE_ARGS_METADATA,
  SSE_METADATA,
} from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/enums/route-paramtypes.enum.js';
import { RequestMethod } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { hasTransaction } from '../database/index.js';
import { idempotentOptions } from './idempotent-options.js';

interface HandlerPlace {
  controller: { name: string; prototype: object };
  method: string;
  handler: object;
}

/** Stops the start when `@Idempotent()` stands where it can't keep its word. */
@Injectable()
export class IdempotentRouteCheck implements OnModuleInit {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {}

  onModuleInit(): void {
    for (const place of this.idempotentHandlers()) {
      const fault = faultOf(place);
      if (fault) throw new Error(`${place.controller.name}.${place.method} has @Idempotent(), but ${fault}`);
    }
  }

  private idempotentHandlers(): HandlerPlace[] {
    return this.discovery.getControllers().flatMap(({ metatype }) => {
      if (!metatype) return [];
      const prototype = metatype.prototype as Record<string, object>;
      return this.scanner
        .getAllMethodNames(prototype)
        .map((method) => ({ controller: { name: metatype.name, prototype }, method, handler: prototype[method] ?? {} }))
        .filter(({ handler }) => idempotentOptions(handler) !== undefined);
    });
  }
}

const READING = new Set([RequestMethod.GET, RequestMethod.HEAD, RequestMethod.OPTIONS, RequestMethod.SEARCH]);

function faultOf({ controller: { prototype }, method, handler }: HandlerPlace): string | null {
  const has = (key: string): boolean => Reflect.hasMetadata(key, handler);
  if (READING.has(Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod)) {
    return 'it only reads, and reading again does no harm. Take the decorator away.';
  }
  if (!idempotentOptions(handler)?.external && !hasTransaction(prototype, method)) {
    return 'it takes no transaction. Add a parameter `@Tx() tx: TenantTransaction` and write through it.';
  }
  if (takesRawResponse(prototype, method)) {
    return 'it takes the response into its own hands. Use @Res({ passthrough: true }) and return what it answers.';
  }
  if (has(SSE_METADATA) || returnsStream(prototype, method)) {
    return 'it streams, and what was streamed cannot be sent again. Return the whole answer.';
  }
  if (has(RENDER_METADATA) || has(REDIRECT_METADATA)) {
    return 'its answer is made by @Render() or @Redirect(), after it was stored. Return the answer itself.';
  }
  return null;
}

function takesRawResponse(prototype: object, method: string): boolean {
  if (Reflect.getMetadata(RESPONSE_PASSTHROUGH_METADATA, prototype.constructor, method) === true) return false;
  const parameters = (Reflect.getMetadata(ROUTE_ARGS_METADATA, prototype.constructor, method) ?? {}) as object;
  return Object.keys(parameters).some((key) =>
    [RouteParamtypes.RESPONSE, RouteParamtypes.NEXT].some((type) => key.startsWith(`${type}:`)),
  );
}

/** Of an async method the compiler tells only that it returns a promise; its streams are refused when they are met. */
function returnsStream(prototype: object, method: string): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', prototype, method);
  return (
    typeof type === 'function' &&
    [StreamableFile, Stream].some((base) => type === base || type.prototype instanceof base)
  );
}
