/** class-transformer ships this module, which @nestjs/mapped-types reads too, without its types beside it. */
declare module 'class-transformer/cjs/storage.js' {
  export { defaultMetadataStorage } from 'class-transformer/types/storage.js';
}
