/* What a user can be called and how many roles one has, for requests and tokens alike. */

/** Code points. */
export const MAX_SUBJECT = 255;
/** Code points. */
export const MAX_DISPLAY_NAME = 200;
export const MAX_ROLES = 50;
export const ROLE_NAME = /^[a-z][a-z0-9_-]{0,62}$/;
