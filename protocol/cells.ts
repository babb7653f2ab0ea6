import type { Cell } from './table.ts';

// Cells that several tables say alike.

/** What an ended job owes whoever meets it, after what is decided besides. */
export function owedByEnded(besides?: string): readonly Cell[] {
  const first = besides === undefined ? '' : `${besides}; `;
  return [
    ['ended', `${first}settle d1 succeeded`],
    ['ended, next', `${first}settle d1 succeeded; assign`],
  ];
}

/** The same whatever the record says, and what an ended job owes besides. */
export function anywhere(decision: string): readonly Cell[] {
  return [...owedByEnded(decision), ['*', decision]];
}

export const NOTHING: readonly Cell[] = [...owedByEnded(), ['*', 'nothing']];

export const UNMATCHED = anywhere('count report-unmatched');

/** A job that waits owes an assign once it is due, and so does whatever a late report finds waiting. */
export const OVERTAKEN: readonly Cell[] = [
  ['pending, not due', 'nothing'],
  ['pending*', 'assign'],
];

/** A job that is to stop ends by whatever says that nothing of it runs. */
export const STOPPED: readonly Cell[] = [
  ['stopping', '→ ended (cancelled); settle d1 cancelled'],
  ['stopping, ran', '→ ended (stopped); settle d1 stopped'],
];
