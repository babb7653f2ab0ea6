/** A guarantee of docs/design.md, or what all of them stand on. */
export type Guarantee =
  | 'G1 one owner'
  | 'G2 one live handler'
  | 'G3 exact dispatch'
  | 'G4 a repeated start is harmless'
  | 'G5 restored, never overwritten'
  | 'G6 no job lost'
  | 'G7 ends are final'
  | 'G8 any order'
  | 'lease';

/** What is looked at in a run, each time that it could be broken, and the guarantee that it is a part of. */
export const CLAIMS = {
  'the fence of a key never falls': 'G1 one owner',
  'a fence is given to one owner': 'G1 one owner',
  'a start is sent to the owner of its fence': 'G1 one owner',
  'whoever starts is the owner on record': 'G1 one owner',

  'nobody starts beside a live handler': 'G2 one live handler',
  'beside a handler that could not know, the fence protects': 'G2 one live handler',
  'beside a handler whose record was deleted, a fence protects': 'G2 one live handler',
  'the resource refuses only whoever could not know': 'G2 one live handler',

  'key, payload and fence of a dispatch are kept': 'G3 exact dispatch',
  'the outcome of a dispatch stays as it is': 'G3 exact dispatch',
  'a handler is given what was admitted': 'G3 exact dispatch',
  'what was never started does not start': 'G3 exact dispatch',
  'a wait is answered, and twice alike': 'G3 exact dispatch',
  'a dispatch has an outcome, or a job that is to give it one': 'G3 exact dispatch',
  'a dispatch that started has an end, or a job that is to give it one': 'G3 exact dispatch',
  'clients were told the outcome on record': 'G3 exact dispatch',
  'whoever was refused met what it was refused for': 'G3 exact dispatch',
  'whoever was cancelled was stopped or superseded': 'G3 exact dispatch',
  'whoever waits behind another asked to': 'G3 exact dispatch',
  'a client is told of what it asked for, and of nothing else': 'G3 exact dispatch',
  'what had expired is not admitted': 'G3 exact dispatch',
  'what is on record as started was up then': 'G3 exact dispatch',
  'what is on record as never started was not up': 'G3 exact dispatch',

  'nobody starts what runs there already': 'G4 a repeated start is harmless',
  'what runs by its record is not told to stop': 'G4 a repeated start is harmless',
  'no attempt is counted that did not fail': 'G4 a repeated start is harmless',
  'whoever has to move, somebody moved': 'G4 a repeated start is harmless',
  'a stop was asked for': 'G4 a repeated start is harmless',

  'what is restored is restored for a worker of the pool': 'G5 restored, never overwritten',
  'what is over is not restored': 'G5 restored, never overwritten',
  'what is restored displaces nobody else': 'G5 restored, never overwritten',
  'what runs in a recovered pool is on record': 'G5 restored, never overwritten',
  'an end that was lost is back in a recovered pool, or reported': 'G5 restored, never overwritten',

  'a job goes no way but those of its states': 'G6 no job lost',
  'everything comes to rest once nothing fails': 'G6 no job lost',
  'what was sent is on record': 'G6 no job lost',

  'an ended job stays ended': 'G7 ends are final',
  'a job ends once': 'G7 ends are final',
  'the end of a dispatch stays as it is': 'G7 ends are final',
  'what has ended does not start': 'G7 ends are final',
  'whoever was stopped, somebody stopped': 'G7 ends are final',
  'what was stopped is over': 'G7 ends are final',
  'what was stopped does not run': 'G7 ends are final',
  'clients were told the end on record': 'G7 ends are final',
  'what is on record as the end is what happened': 'G7 ends are final',

  'nothing is assigned before it is due': 'G8 any order',
  'nothing is assigned in a pool that has not been open for long': 'G8 any order',
  'no start is sent under a fence that its record does not know': 'G8 any order',
  'nothing is left once all was stopped': 'G8 any order',
  'an operator is heard once nothing fails': 'G8 any order',

  'nobody is declared lost within its lease': 'lease',
  'nobody starts without a lease': 'lease',
  'handlers know that they are lost by two thirds of a lease': 'lease',
  'no handler is alive without a lease': 'lease',
} as const satisfies Readonly<Record<string, Guarantee>>;

export type Claim = keyof typeof CLAIMS;

export interface Violation {
  readonly guarantee: Guarantee;
  readonly claim: Claim;
  readonly what: string;
}
