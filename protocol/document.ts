import { entryTable } from './entries.ts';
import { ownerLostTable, ownerRowTable } from './owners.ts';
import { reportTable } from './reports.ts';
import { requestTable } from './requests.ts';
import { restoreTable } from './restore.ts';
import { runtimeTable } from './runtime.ts';
import { type Table, type TableRow, usedCells } from './table.ts';

/** `docs/protocol.md`, printed from the tables that the tests check the code against. */
export function protocolDocument(): string {
  return `${[
    '# The protocol, cell by cell',
    'Generated from the tables in `protocol/` by `npm run generate`: the tests hold the code against the same tables, and this page against them.',
    'At key `k` stands dispatch `d1`, owned by `w1` in session `s1` at fence 100; `d3` waits as `next` where somebody waits; `d2` is another dispatch. `→` is the commit, what stands before it is durable before it, what follows is done after it, in this order. `settle` records an outcome, or an outcome and an end, where they are absent. `send` reads the row of the owner first (*Command × row of the owner*); `tell` does not. `assign` is an internal request.',
    'Of the lines of a row the first that fits counts; `…` stands for anything, as in `pending…` for every reason to be pending.',
    ...[requestTable, reportTable, ownerRowTable, ownerLostTable, entryTable, restoreTable].flatMap(section),
    ...runtimeSection(),
  ].join('\n\n')}\n`;
}

function section({ title, about, rows }: Table): string[] {
  return [`## ${title}`, about, ...rows.map((row) => [`**${row.when}**`, '', ...linesOf(row)].join('\n'))];
}

function linesOf(row: TableRow): string[] {
  const lines = usedCells(row).map(([columns, decision]) => {
    const records = columns === '*' ? '_any other_' : columns.split(' | ').join('<br>').replaceAll('*', '…');
    return `| ${records} | ${decision.replace('{job}', 'as it is')} |`;
  });
  return ['| record | decision |', '|---|---|', ...lines];
}

function runtimeSection(): string[] {
  const { title, about, rows } = runtimeTable;
  return [
    `## ${title}`,
    about,
    ['| a command meets | does |', '|---|---|', ...rows.map(({ meets, does }) => `| ${meets} | ${does} |`)].join('\n'),
  ];
}
