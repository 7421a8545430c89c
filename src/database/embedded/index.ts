export { embeddedBinaries, type EmbeddedMajor } from './binaries.js';
export { EMBEDDED_DATABASE, openEmbedded } from './embedded-database.js';
export { discardEmbedded, type EmbeddedOptions, type EmbeddedServer, startEmbedded } from './embedded-server.js';
export { type RolePasswords, rolePasswords } from './role-passwords.js';
export { findUp } from './find-up.js';
