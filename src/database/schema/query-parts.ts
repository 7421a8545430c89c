/** Namespaces `n` that migrations make; `migrations` itself is TypeORM's. */
export const OURS = `n.nspowner IN (SELECT r.oid FROM pg_roles r WHERE r.rolname IN ('waybill_owner', 'waybill_audit')) AND n.nspname <> 'migrations'`;

/** Rights and comments are made right after what they belong to: a later statement may need them. */
export const AFTER = '0.5';
