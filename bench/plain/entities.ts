import { Column, CreateDateColumn, Entity, OneToMany, ManyToOne, PrimaryGeneratedColumn, type Relation } from 'typeorm';

@Entity('plain_orders')
export class PlainOrder {
  @PrimaryGeneratedColumn('uuid')
  id!: string;
  @Column({ unique: true })
  number!: string;
  @Column()
  channel!: string;
  @Column({ unique: true })
  externalRef!: string;
  @Column()
  customerRef!: string;
  @Column({ type: 'jsonb' })
  customer!: object;
  @Column({ type: 'jsonb' })
  shippingAddress!: object;
  @Column({ default: 'pending' })
  status!: string;
  @Column()
  currency!: string;
  @Column()
  subtotal!: number;
  @Column()
  tax!: number;
  @Column()
  shipping!: number;
  @Column()
  total!: number;
  @Column({ type: 'jsonb' })
  metadata!: object;
  @CreateDateColumn()
  placedAt!: Date;
  @OneToMany(() => PlainLine, (line) => line.order, { cascade: true })
  lines!: Relation<PlainLine>[];
}

@Entity('plain_lines')
export class PlainLine {
  @PrimaryGeneratedColumn('uuid')
  id!: string;
  @ManyToOne(() => PlainOrder, (order) => order.lines)
  order!: Relation<PlainOrder>;
  @Column()
  sku!: string;
  @Column()
  name!: string;
  @Column()
  quantity!: number;
  @Column()
  unitPrice!: number;
  @Column()
  discount!: number;
  @Column()
  taxRatePpm!: number;
  @Column()
  tax!: number;
  @Column()
  total!: number;
}

@Entity('plain_history')
export class PlainHistory {
  @PrimaryGeneratedColumn('uuid')
  id!: string;
  @Column()
  orderId!: string;
  @Column({ type: 'varchar', nullable: true })
  fromStatus!: string | null;
  @Column()
  toStatus!: string;
  @Column()
  changedBy!: string;
  @CreateDateColumn()
  changedAt!: Date;
}

@Entity('plain_audit')
export class PlainAudit {
  @PrimaryGeneratedColumn('uuid')
  id!: string;
  @Column()
  orderId!: string;
  @Column({ type: 'jsonb' })
  snapshot!: object;
  @CreateDateColumn()
  at!: Date;
}

@Entity('plain_keys')
export class PlainApiKey {
  @PrimaryGeneratedColumn('uuid')
  id!: string;
  @Column({ unique: true })
  key!: string;
  @Column()
  user!: string;
}
