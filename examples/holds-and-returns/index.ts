import type { WaybillExtension } from 'waybill/extension';
import { HoldsAndReturnsModule } from './holds-and-returns.module.js';
import { OnHold1790000000001 } from './migrations/1790000000001-on-hold.js';
import { Returns1790000000002 } from './migrations/1790000000002-returns.js';

const extension: WaybillExtension = {
  name: 'holds-and-returns',
  module: HoldsAndReturnsModule,
  migrations: [OnHold1790000000001, Returns1790000000002],
};

export default extension;
