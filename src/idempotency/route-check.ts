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
import { DiscoveryService } from '@nestjs/core';
import { type ControllerMethod, controllerMethods } from '../http/index.js';
import { hasTransaction } from '../database/index.js';
import { idempotentOptions } from './idempotent-options.js';

/** Stops the start when `@Idempotent()` stands where it can't keep its word. */
@Injectable()
export class IdempotentRouteCheck implements OnModuleInit {
  constructor(private readonly discovery: DiscoveryService) {}

  onModuleInit(): void {
    for (const method of controllerMethods(this.discovery)) {
      const fault = idempotentOptions(method.handler) && faultOf(method);
      if (fault) throw new Error(`${method.controller.name}.${method.name} has @Idempotent(), but ${fault}`);
    }
  }
}

const READING = new Set([RequestMethod.GET, RequestMethod.HEAD, RequestMethod.OPTIONS, RequestMethod.SEARCH]);

function faultOf({ controller, name: method, handler }: ControllerMethod): string | null {
  const prototype = controller.prototype as object;
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
