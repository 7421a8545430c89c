import type { Type } from '@nestjs/common';
import { type DiscoveryService, MetadataScanner } from '@nestjs/core';

/** A method of a controller; whether it is a route is for its metadata to say. */
export interface ControllerMethod {
  controller: Type<unknown>;
  name: string;
  handler: (...parameters: never[]) => unknown;
}

/** Those of the controllers of all modules, extensions included. */
export function controllerMethods(discovery: DiscoveryService): ControllerMethod[] {
  const scanner = new MetadataScanner();
  return discovery.getControllers().flatMap(({ metatype }) => {
    if (!metatype) return [];
    const prototype = metatype.prototype as Record<string, ControllerMethod['handler']>;
    return scanner.getAllMethodNames(prototype).flatMap((name) => {
      const handler = prototype[name];
      return handler ? [{ controller: metatype as Type<unknown>, name, handler }] : [];
    });
  });
}
