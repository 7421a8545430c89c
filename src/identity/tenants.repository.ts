import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';

@Injectable()
export class TenantsRepository {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Outside of any tenant's transaction, as nobody is known yet.
   *
   * @param name id in digits, or slug
   */
  async find(name: string): Promise<number | null> {
    const [row] = await this.dataSource.query<{ id: number | null }[]>('SELECT waybill.find_tenant($1) AS id', [name]);
    return row?.id ?? null;
  }
}
