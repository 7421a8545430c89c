import { ApiProperty } from '@nestjs/swagger';
import { finalStates, type Machine } from '../machine.js';

export class TransitionRuleDto {
  @ApiProperty({ example: 'pending' })
  from!: string;
  @ApiProperty({ example: 'canceled' })
  to!: string;
  @ApiProperty({ example: ['operator', 'admin'], description: 'Any one of these suffices.' })
  roles!: string[];
  @ApiProperty({ example: true })
  requiresReason!: boolean;
  @ApiProperty({ example: [], description: 'Conditions that are asked before.' })
  guards!: string[];
}

/** A state machine as it is in force. */
export class WorkflowDto {
  @ApiProperty({ example: 'order' })
  name!: string;
  @ApiProperty({ example: 'pending' })
  initialState!: string;
  @ApiProperty({ example: ['pending', 'confirmed', 'shipped', 'delivered', 'canceled'] })
  states!: string[];
  @ApiProperty({ example: ['delivered', 'canceled'] })
  finalStates!: string[];
  @ApiProperty({ type: [TransitionRuleDto] })
  transitions!: TransitionRuleDto[];

  static of(machine: Machine): WorkflowDto {
    return Object.assign(new WorkflowDto(), {
      name: machine.name,
      initialState: machine.initialState,
      states: machine.states,
      finalStates: finalStates(machine),
      transitions: machine.rules.map(({ from, to, roles, requiresReason, guards }) => ({
        from,
        to,
        roles,
        requiresReason,
        guards,
      })),
    });
  }
}

export class WorkflowListDto {
  @ApiProperty({ type: [WorkflowDto] })
  data!: WorkflowDto[];
}
