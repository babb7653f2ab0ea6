import { Table } from 'console-table-printer';
import { type Check, isBroken, wanted } from './verdict.ts';

/** The checks as a table for people. */
export function tableOf(checks: readonly Check[], seconds: number): string {
  const table = new Table({
    shouldDisableColors: true,
    columns: [
      { name: 'what', title: `${seconds} s`, alignment: 'left' },
      { name: 'is', title: 'is', alignment: 'right' },
      { name: 'mustBe', title: 'must be', alignment: 'right' },
      { name: 'mark', title: ' ', alignment: 'left' },
      { name: 'because', title: 'because', alignment: 'left' },
    ],
  });
  for (const check of checks) {
    const { name, is, mustBe, because } = check;
    const mark = mustBe === undefined ? '' : isBroken(check) ? '✗' : '✓';
    table.addRow({ what: name, is, mustBe: wanted(check), mark, because });
  }
  return table.render();
}
