import { SetMetadata } from '@nestjs/common';

/** Metadata key that the auth guard reads: the route or controller needs no credentials. */
export const PUBLIC_ROUTE = 'waybill:public-route';

/** Marks a controller or handler that anyone may call. */
export const Public = () => SetMetadata(PUBLIC_ROUTE, true);
