import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { PINNED_SETTINGS, strangeSettings } from './session-settings.js';

interface RoleFacts {
  role: string;
  owns: number;
  bypasses: boolean;
}

/** Refuses to serve with a database role that the rules don't bind. */
@Injectable()
export class RoleCheck implements OnModuleInit {
  constructor(private readonly dataSource: DataSource) {}

  async onModuleInit(): Promise<void> {
    const [facts] = await this.dataSource.query<RoleFacts[]>(`
      SELECT current_user AS role,
             (SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname IN ('waybill', 'audit') AND pg_catalog.pg_has_role(c.relowner, 'MEMBER')) AS owns,
             (SELECT r.rolsuper OR r.rolbypassrls FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) AS bypasses`);
    const fault = facts && faultOf(facts);
    if (fault) throw new Error(fault);
    await this.refuseStrangeSettings();
  }

  /** A pooler doesn't keep all settings for its client, or drops them: then those of the role and the database count. */
  private async refuseStrangeSettings(): Promise<void> {
    const found = await this.dataSource.query<{ name: string; setting: string }[]>(
      'SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY ($1)',
      [Object.keys(PINNED_SETTINGS)],
    );
    const strange = strangeSettings(found);
    if (strange.length === 0) return;
    throw new Error(
      `The sessions of DATABASE_URL don't have the settings that this service relies on: ${strange.join('; ')}. ` +
        'Take back what was set for the role or the database (ALTER ROLE … RESET …); ' +
        'behind a pooler that drops startup parameters add pgbouncer=true to the address.',
    );
  }
}

function faultOf({ role, owns, bypasses }: RoleFacts): string | null {
  const advice = 'Set DATABASE_URL to the address of waybill_app.';
  if (bypasses) return `The database role ${role} is a superuser or bypasses row level security. ${advice}`;
  if (owns > 0) return `The database role ${role} can act as the owner of ${owns} of Waybill's relations. ${advice}`;
  return null;
}
