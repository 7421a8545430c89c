import { memberOf } from './problem-members.js';

/** One fault. `pointer` is an RFC 6901 pointer into the body, `parameter` the name of a query or path parameter. */
export interface ProblemFault {
  pointer?: string;
  parameter?: string;
  detail: string;
  /** 1-based place in the body's text, for a body that could not be read. */
  line?: number;
  column?: number;
}

export const faultsMember = memberOf<readonly ProblemFault[]>({
  type: 'array',
  description: 'Each fault of a request that could not be used.',
  items: {
    type: 'object',
    required: ['detail'],
    properties: {
      pointer: { type: 'string', description: 'RFC 6901 pointer into the body.' },
      parameter: { type: 'string', description: 'Name of a query or path parameter, or of a header.' },
      detail: { type: 'string' },
      line: { type: 'integer', description: 'Place in a body that could not be read, from 1.' },
      column: { type: 'integer' },
    },
  },
});
