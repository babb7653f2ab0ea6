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
  /** The columns that can be met in this situation. */
  readonly columns: readonly string[];
  /** Patterns of columns (`*` stands for anything, `|` for or) with what is decided there; the first that matches wins. */
  readonly cells: readonly Cell[];
}

export type Cell = readonly [columns: string, decision: string];

/** The decision of each column. Throws where a column has none, because such a table says less than it seems to. */
export function expand(row: TableRow): ReadonlyMap<string, string> {
  return new Map(row.columns.map((column) => [column, cellOf(row, column)[1]]));
}

/** The cells that decide anything, in their order. */
export function usedCells(row: TableRow): readonly Cell[] {
  const used = new Set(row.columns.map((column) => cellOf(row, column)));
  return row.cells.filter((cell) => used.has(cell));
}

/** The cell that speaks of a column: the first that fits. */
export function cellOf({ when, cells }: TableRow, column: string): Cell {
  const cell = cells.find(([patterns]) => patterns.split(' | ').some((pattern) => fits(pattern, column)));
  if (!cell) throw new Error(`${when}: nothing is said of "${column}"`);
  return cell;
}

function fits(pattern: string, column: string): boolean {
  const escaped = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${escaped.join('.*')}$`).test(column);
}
