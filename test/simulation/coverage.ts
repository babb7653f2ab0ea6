import { readFileSync } from 'node:fs';

const DECIDERS = ['pool/decide-request', 'pool/decide-report', 'pool/decide-owner-lost', 'resync/decide-entry', 'resync/decide-restore'];

/** Rules that stand in the deciders' source and that no decision of a run named; a rule with a variable part counts as one. */
export function rulesNeverReached(reached: ReadonlyMap<string, number>): readonly string[] {
  const rules = new Set(DECIDERS.flatMap((name) => rulesIn(readFileSync(new URL(`../../lib/${name}.ts`, import.meta.url), 'utf8'))));
  return [...rules].filter((rule) => ![...reached.keys()].some((name) => patternOf(rule).test(name)));
}

function rulesIn(source: string): readonly string[] {
  const named = source.matchAll(
    /\brule(?::| =) (?:'([^']+)'|`([^`]+)`)|\brule: [^,'`]*\? '([^']+)' : '([^']+)'|refuse\([^)]*, '([^']+)'\)|\b(?:restored|refused|unchanged)\('([^']+)'\)/g,
  );
  return [...named].flatMap(([, ...groups]) => groups.filter((group) => group !== undefined));
}

function patternOf(rule: string): RegExp {
  const parts = rule.split(/\$\{[^}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.+')}$`);
}
