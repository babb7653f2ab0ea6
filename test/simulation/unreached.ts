/**
 * What four million steps do not reach for sure, and why: each of these coincides about once in a million steps at most, though plots have many of them
 * come about. The tables' tests and the crash points act all of them out. What is reached often does not belong here any more.
 */
export const UNREACHED: readonly { readonly because: string; readonly names: readonly string[] }[] = [
  {
    because: 'A record that was deleted or put back, and two more things that go wrong before it is restored.',
    names: [
      'claim: an end that was lost is back in a recovered pool, or reported',
      'confirmed × releasing',
      'rule: confirmed after its end',
      'rule: confirmed below the record',
      'rule: confirmed with another payload',
      'rule: confirmed, assigned since',
      'rule: confirmed, other generation',
      'effect: fail: unavailable',
      'rule: start-failed of a dispatch that no job names',
      // A fence has one end at its worker, and what is refused or fails to start was never up, unless a fence was given twice.
      'rule: refused at running',
      'rule: start-failed at running',
    ],
  },
  {
    because: 'A start that is out while its pool is recovered.',
    names: ['rule: assign anew', 'rule: entry assigned before'],
  },
  {
    because: 'What a worker has ended and forgotten, it is asked about again only where the record came back from a backup.',
    names: ['rule: entry unrecognized', 'rule: entry unrecognized, stopping'],
  },
  {
    because: 'A job that was taken from a session which is on its row again: only from a Workers table that was put back.',
    names: ['rule: entry adopted'],
  },
  {
    because:
      'A handler that is up while its dispatch is assigned anew to its own worker, and stopped or let go before that start is there.',
    names: ['worker, release: end what is up, under a lower fence', 'worker, stop: end what is up, under a lower fence'],
  },
  {
    because: 'Two starts of a key out at one worker, one of them overtaken by the release of the other.',
    names: ['worker, start: answer released'],
  },
  {
    because:
      'A job is releasing for as long as its handler takes to stop, and then its owner is lost, or another end of it is heard first.',
    names: ['entry start-failed × releasing', 'entry stopped × releasing', 'owner lost, start × releasing', 'rule: stopped at releasing'],
  },
  {
    because: 'A failure that comes twice, by its report and by a round, and meets what the job has become in between.',
    names: ['entry start-failed × running', 'entry start-failed × stopping', 'rule: stop-failed at pending', 'rule: stopped at running'],
  },
  {
    because: 'A row is deleted long after its worker has gone.',
    names: ['owner’s row × no row: owner lost'],
  },
];

/** What the tables answer for the sake of completeness, and what cannot come about as long as the guarantees hold: a run that reaches it fails. */
export const IMPOSSIBLE: typeof UNREACHED = [
  {
    because: 'A key has one owner by its fence (G1).',
    names: ['rule: confirmed, owned by another'],
  },
  {
    because: 'A worker registers anew only once no handler of its last session is alive (G2).',
    names: ['rule: entry taken over'],
  },
];
