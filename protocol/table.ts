/**
 * A table of the protocol as data: the tests check the code against it, `docs/protocol.md` is printed from it. Columns are the states
 * that a record can be in; a row is one message in one situation.
 */
export interface Table<Row extends TableRow = TableRow> {
  readonly title: string;
  readonly about: string;
  readonly rows: readonly Row[];
}

export interface TableRow {
  readonly when: string;
  /** Patterns of columns (`*` stands for anything) with what is decided there; the first that matches wins. */
  readonly cells: readonly Cell[];
}

export type Cell = readonly [columns: string, decision: string];

/** The decision of each column. Throws where a column has none, or a pattern fits no column: such a table says less than it seems to. */
export function expand(row: TableRow, columns: readonly string[]): ReadonlyMap<string, string> {
  const used = new Set<Cell>();
  const cells = new Map(
    columns.map((column) => {
      const cell = row.cells.find(([pattern]) => pattern.split(' | ').some((each) => fits(each, column)));
      if (!cell) throw new Error(`${row.when}: nothing is said of "${column}"`);
      used.add(cell);
      return [column, cell[1]];
    }),
  );
  const idle = row.cells.find((cell) => !used.has(cell));
  if (idle) throw new Error(`${row.when}: "${idle[0]}" fits no column`);
  return cells;
}

function fits(pattern: string, column: string): boolean {
  const escaped = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${escaped.join('.*')}$`).test(column);
}
