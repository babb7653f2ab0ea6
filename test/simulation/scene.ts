import type { Faults } from '../../lib/testing/faults.ts';
import type { Incidents } from '../../lib/testing/incidents.ts';
import type { Checker } from '../../lib/testing/invariants.ts';
import type { MemoryPool } from '../../lib/testing/memory-pool.ts';
import type { Scheduler } from '../../lib/testing/scheduler.ts';
import type { Tell } from '../../lib/testing/story.ts';
import type { Cues } from './cues.ts';
import type { History } from './history.ts';
import type { Conditions } from './profiles.ts';

/** What all that goes on in one world has in common. */
export interface Scene {
  readonly scheduler: Scheduler;
  readonly conditions: Conditions;
  readonly faults: Faults;
  readonly cues: Cues;
  readonly incidents: Incidents;
  readonly checker: Checker;
  readonly history: History;
  readonly pool: MemoryPool;
  readonly leaseMs: number;
  readonly keys: readonly string[];
  readonly tell: Tell;
  /** A table was restored, and the pool is not recovered yet. */
  readonly isRecovering: () => boolean;
  /** No more faults, and everything goes well. */
  readonly isCalm: () => boolean;
  /** Runs then, at once where it is calm already; for what hangs until then. */
  readonly whenCalm: (run: () => void) => void;
}
