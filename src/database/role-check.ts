import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';

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
  }
}

function faultOf({ role, owns, bypasses }: RoleFacts): string | null {
  const advice = 'Set DATABASE_URL to the address of waybill_app.';
  if (bypasses) return `The database role ${role} is a superuser or bypasses row level security. ${advice}`;
  if (owns > 0) return `The database role ${role} can act as the owner of ${owns} of Waybill's relations. ${advice}`;
  return null;
}
