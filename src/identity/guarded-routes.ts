import { Injectable, RequestMethod } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, Reflector } from '@nestjs/core';
import { controllerMethods, PUBLIC_ROUTE } from '../http/index.js';
import { ROUTE_ROLES } from './roles.decorator.js';

/** Which of the server's routes need credentials, found in the controllers of all modules. */
@Injectable()
export class GuardedRoutes {
  private found: { routes: ReadonlySet<string>; roles: ReadonlySet<string> } | undefined;

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly reflector: Reflector,
  ) {}

  /** @param pattern as the router knows it, such as `/v1/orders/:id` */
  has(method: string, pattern: string): boolean {
    // The router answers HEAD wherever it answers GET.
    return this.all().routes.has(`${method === 'HEAD' ? 'GET' : method} ${pattern}`);
  }

  /** Every role that some route asks for. */
  roles(): ReadonlySet<string> {
    return this.all().roles;
  }

  private all() {
    this.found ??= this.find();
    return this.found;
  }

  private find() {
    const routes = new Set<string>();
    const roles = new Set<string>();
    for (const { controller, handler } of controllerMethods(this.discovery)) {
      const path = Reflect.getMetadata(PATH_METADATA, handler) as string | string[] | undefined;
      if (path === undefined) continue;
      const places = [handler, controller];
      if (this.reflector.getAllAndOverride<boolean>(PUBLIC_ROUTE, places)) continue;
      const method = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod];
      for (const pattern of patternsOf(controller, path)) routes.add(`${method} ${pattern}`);
      this.reflector.getAllAndOverride<string[]>(ROUTE_ROLES, places)?.forEach((role) => roles.add(role));
    }
    return { routes, roles };
  }
}

function patternsOf(controller: object, path: string | string[]): string[] {
  const prefixes = [Reflect.getMetadata(PATH_METADATA, controller) as string | string[]].flat();
  return prefixes.flatMap((prefix) =>
    [path].flat().map(
      (rest) =>
        `/${[prefix, rest]
          .flatMap((part) => part.split('/'))
          .filter(Boolean)
          .join('/')}`,
    ),
  );
}
